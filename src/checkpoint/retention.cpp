#include "checkpoint/retention.h"

#include <set>

namespace shoal::checkpoint {
namespace {

bool is_for_ever(std::int64_t step, const Retention& retention) {
  return retention.keep_every > 0 && step > 0 && step % retention.keep_every == 0;
}

}  // namespace

std::vector<CatalogEntry> superfluous(const std::vector<CatalogEntry>& sound, const Retention& retention) {
  std::vector<CatalogEntry> go;
  std::set<std::int64_t> steps;  // that were seen, those that go included
  int newest = 0;
  for (const CatalogEntry& entry : sound) {
    const bool displaced = !steps.insert(entry.step).second;
    const bool counts = !displaced && newest++ < retention.keep;
    if (displaced || (!counts && !is_for_ever(entry.step, retention))) go.push_back(entry);
  }
  return go;
}

}  // namespace shoal::checkpoint

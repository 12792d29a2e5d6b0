#include "checkpoint/retention.h"

#include <set>

namespace shoal::checkpoint {

bool is_for_ever(std::int64_t step, const Retention& retention) {
  return retention.keep_every > 0 && step > 0 && step % retention.keep_every == 0;
}

std::vector<Standing> standings(const std::vector<CatalogEntry>& sound, const Retention& retention) {
  std::vector<Standing> all;
  std::set<std::int64_t> steps;  // that were seen, those that go included
  int newest = 0;
  for (const CatalogEntry& entry : sound) {
    if (!steps.insert(entry.step).second)
      all.push_back(Standing::displaced);
    else if (newest++ < retention.keep)
      all.push_back(Standing::newest);
    else
      all.push_back(is_for_ever(entry.step, retention) ? Standing::multiple : Standing::older);
  }
  return all;
}

std::vector<CatalogEntry> superfluous(const std::vector<CatalogEntry>& sound, const Retention& retention) {
  const std::vector<Standing> all = standings(sound, retention);
  std::vector<CatalogEntry> go;
  for (std::size_t i = 0; i < sound.size(); ++i)
    if (all[i] == Standing::displaced || all[i] == Standing::older) go.push_back(sound[i]);
  return go;
}

}  // namespace shoal::checkpoint

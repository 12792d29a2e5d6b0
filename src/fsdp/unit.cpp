#include "fsdp/unit.h"

#include <algorithm>

namespace shoal::fsdp {

bool Unit::unsharded() const {
  return std::all_of(flats_.begin(), flats_.end(), [](const auto& flat) { return flat->has_memory(); });
}

void Unit::start_unshard() {
  for (const auto& flat : flats_) flat->start_unshard();
}

void Unit::unshard() {
  start_unshard();
  for (const auto& flat : flats_) flat->finish_unshard();
}

void Unit::reshard() {
  for (const auto& flat : flats_) flat->reshard();
}

bool Unit::trained() const {
  return std::any_of(flats_.begin(), flats_.end(), [](const auto& flat) { return flat->trained(); });
}

void Unit::expect_gradients() {
  reduced = !trained();
  for (const auto& flat : flats_) flat->expect_gradients();
}

bool Unit::gradients_missing() const {
  return std::any_of(flats_.begin(), flats_.end(), [](const auto& flat) { return flat->gradients_missing() > 0; });
}

void Unit::start_reduce() {
  reduced = true;
  for (const auto& flat : flats_)
    if (flat->trained()) flat->start_reduce();
}

void Unit::finish_reduce() {
  for (const auto& flat : flats_)
    if (flat->trained()) flat->finish_reduce();
}

}  // namespace shoal::fsdp

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
  finished = !trained();
  for_each_gradient([](FlatGradient& gradient) { gradient.expect(); });
}

bool Unit::gradients_missing() const {
  bool missing = false;
  for_each_gradient([&](const FlatGradient& gradient) { missing = missing || gradient.missing() > 0; });
  return missing;
}

void Unit::start_reduce() {
  for_each_gradient([](FlatGradient& gradient) { gradient.start_reduce(); });
}

void Unit::finish_reduce(bool sum_replicas) {
  for_each_gradient([&](FlatGradient& gradient) { gradient.finish_reduce(sum_replicas); });
}

}  // namespace shoal::fsdp

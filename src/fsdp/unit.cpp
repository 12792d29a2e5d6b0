#include "fsdp/unit.h"

#include <algorithm>

#include "fsdp/buffer_plan.h"

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

void Unit::reshard_to_regather_group() {
  for (const auto& flat : flats_) flat->reshard_to_regather_group();
}

void Unit::drop_regather_shards() {
  for (const auto& flat : flats_) flat->drop_regather_shard();
}

bool Unit::trained() const {
  return std::any_of(flats_.begin(), flats_.end(), [](const auto& flat) { return flat->trained(); });
}

void Unit::keep_gradients() {
  for_each_gradient([](FlatGradient& gradient) { gradient.keep_whole(); });
}

bool Unit::keeps_gradients() const {
  bool keeps = false;
  for_each_gradient([&](const FlatGradient& gradient) { keeps = keeps || gradient.keeps_whole(); });
  return keeps;
}

void Unit::expect_gradients() {
  finished = !trained();
  for (const auto& flat : flats_) flat->update().finish();  // its gradient is in use until then
  for_each_gradient([](FlatGradient& gradient) { gradient.expect(); });
}

bool Unit::gradients_missing() const {
  bool missing = false;
  for_each_gradient([&](const FlatGradient& gradient) { missing = missing || gradient.missing() > 0; });
  return missing;
}

std::int32_t Unit::gradient_place() const {
  constexpr std::uint32_t kFactor = 1000003;
  std::uint32_t number = 0;
  for_each_gradient([&](const FlatGradient& gradient) {
    const std::int64_t place = gradient.place();
    number = number * kFactor + static_cast<std::uint32_t>(place < 0 ? 0 : place / kBufferAlignment + 1);
  });
  return static_cast<std::int32_t>(number);
}

void Unit::leave_gradient_place() {
  for_each_gradient([](FlatGradient& gradient) { gradient.leave_place(); });
}

void Unit::start_reduce() {
  for_each_gradient([](FlatGradient& gradient) { gradient.start_reduce(); });
}

void Unit::finish_reduce(bool sum_replicas) {
  for_each_gradient([&](FlatGradient& gradient) { gradient.finish_reduce(sum_replicas); });
}

void Unit::start_replica_sum() {
  for_each_gradient([](FlatGradient& gradient) { gradient.start_replica_sum(); });
}

void Unit::finish_replica_sum() {
  for_each_gradient([](FlatGradient& gradient) { gradient.finish_replica_sum(); });
}

}  // namespace shoal::fsdp

#include "fsdp/unit_order.h"

#include <array>

#include "core/check.h"

namespace shoal::fsdp {

void UnitOrder::begin(int kind) {
  record_ = &records_[kind];
  place_ = 0;
  recording_ = record_->empty() || record_->back().kind != UnitEvent::end;
  if (recording_) record_->clear();
}

void UnitOrder::happened(UnitEvent event) {
  SHOAL_ASSERT(record_ != nullptr);
  if (!recording_) {
    if (place_ < record_->size() && (*record_)[place_] == event) {
      ++place_;
      return;
    }
    record_->resize(place_);
    recording_ = true;
  }
  compare(event);
  record_->push_back(event);
  ++place_;
}

void UnitOrder::forget() {
  if (record_) record_->clear();
}

std::span<const UnitEvent> UnitOrder::upcoming() const {
  if (recording_ || !record_) return {};
  return std::span<const UnitEvent>(*record_).subspan(place_);
}

void UnitOrder::compare(UnitEvent event) {
  if (control_->size() == 1) return;
  using Token = std::array<std::int64_t, 4>;
  const Token mine{static_cast<std::int64_t>(place_), event.kind, event.unit, event.memory};
  std::vector<Token> all(static_cast<std::size_t>(control_->size()));
  const std::string before = control_->activity();
  control_->set_activity(
      fmt::format("the comparison of the order of units ({} as number {} of this pass)", text(event), place_ + 1));
  control_->all_gather(mine.data(), all.data(), std::tuple_size_v<Token>, DType::int64)->wait();
  control_->set_activity(before);
  for (std::size_t r = 0; r < all.size(); ++r) {
    const UnitEvent theirs{static_cast<UnitEvent::Kind>(all[r][1]), static_cast<std::int32_t>(all[r][2]),
                           static_cast<std::int32_t>(all[r][3])};
    SHOAL_CHECK(all[r] == mine, CommunicationError,
                "ranks take different paths through the model: number {} of this pass is {} on rank {}, but number {} "
                "is {} on rank {}; "
                "every rank must use the same units in the same order",
                place_ + 1, text(event), control_->rank(), all[r][0] + 1, text(theirs), r);
  }
}

std::string UnitOrder::text(UnitEvent event) const {
  if (event.kind == UnitEvent::end) return "the end of the pass";
  const std::string& unit = names_->at(static_cast<std::size_t>(event.unit));
  if (event.kind == UnitEvent::use) return fmt::format("the use of unit '{}'", unit);
  return fmt::format("the gradients of unit '{}' (from memory {})", unit, event.memory);
}

}  // namespace shoal::fsdp

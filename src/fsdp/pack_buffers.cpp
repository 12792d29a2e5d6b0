#include "fsdp/pack_buffers.h"

#include <algorithm>
#include <numeric>

namespace shoal::fsdp {
namespace {

// The first buffers are tried in all their places. Where units are alike the others follow from them, and take the
// lowest place that is left.
constexpr std::size_t kTriedEverywhere = 6;

class Packing {
 public:
  Packing(std::vector<PackedBuffer>& buffers, const BuffersMeet& meet) : buffers_(&buffers), meet_(&meet) {}

  // All buffers of a step and those of earlier steps that meet it are there at a time.
  std::int64_t most_at_a_time() const {
    std::int64_t most = 0;
    for (const PackedBuffer& now : *buffers_) {
      std::int64_t bytes = 0;
      for (const PackedBuffer& other : *buffers_)
        if (other.step <= now.step && conflict(other, now)) bytes += other.bytes;
      most = std::max(most, bytes);
    }
    return most;
  }

  // Places within `room` for the buffer `next` and all behind it.
  bool search(std::size_t next, std::int64_t room) {
    if (next == buffers_->size()) return true;
    for (const std::int64_t place : gaps_for(next, room)) {
      (*buffers_)[next].place = place;
      if (search(next + 1, room)) return true;
      if (next >= kTriedEverywhere) return false;
    }
    return false;
  }

  // The largest first, each at the lowest place, which leaves gaps to the smaller ones.
  void place_by_size() {
    std::vector<std::size_t> order(buffers_->size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [this](std::size_t a, std::size_t b) { return (*buffers_)[a].bytes > (*buffers_)[b].bytes; });
    placed_.clear();
    for (const std::size_t i : order) {
      std::int64_t place = 0;
      for (const PackedBuffer* other : in_the_way_of((*buffers_)[i], placed_)) {
        if (other->place - place >= (*buffers_)[i].bytes) break;
        place = std::max(place, other->end());
      }
      (*buffers_)[i].place = place;
      placed_.push_back(&(*buffers_)[i]);
    }
  }

  std::int64_t bytes() const {
    std::int64_t bytes = 0;
    for (const PackedBuffer& buffer : *buffers_) bytes = std::max(bytes, buffer.end());
    return bytes;
  }

 private:
  bool conflict(const PackedBuffer& a, const PackedBuffer& b) const {
    const auto [first, second] = std::minmax(a.step, b.step);
    return first == second || (*meet_)(first, second);
  }

  std::vector<const PackedBuffer*> in_the_way_of(const PackedBuffer& buffer,
                                                 const std::vector<const PackedBuffer*>& placed) const {
    std::vector<const PackedBuffer*> others;
    for (const PackedBuffer* other : placed)
      if (conflict(*other, buffer)) others.push_back(other);
    std::sort(others.begin(), others.end(),
              [](const PackedBuffer* a, const PackedBuffer* b) { return a->place < b->place; });
    return others;
  }

  // Both ends of each gap between the buffers before `next`.
  std::vector<std::int64_t> gaps_for(std::size_t next, std::int64_t room) {
    const PackedBuffer& buffer = (*buffers_)[next];
    placed_.clear();
    for (std::size_t i = 0; i < next; ++i) placed_.push_back(&(*buffers_)[i]);
    std::vector<std::int64_t> places;
    std::int64_t begin = 0;
    const auto add_gap = [&](std::int64_t end) {
      if (end - begin < buffer.bytes) return;
      places.push_back(begin);
      if (end - buffer.bytes > begin) places.push_back(end - buffer.bytes);
    };
    for (const PackedBuffer* other : in_the_way_of(buffer, placed_)) {
      add_gap(other->place);
      begin = std::max(begin, other->end());
    }
    add_gap(room);
    return places;
  }

  std::vector<PackedBuffer>* buffers_;
  const BuffersMeet* meet_;
  std::vector<const PackedBuffer*> placed_;
};

}  // namespace

std::int64_t pack_buffers(std::vector<PackedBuffer>& buffers, const BuffersMeet& meet) {
  Packing packing(buffers, meet);
  if (!packing.search(0, packing.most_at_a_time())) packing.place_by_size();
  return packing.bytes();
}

}  // namespace shoal::fsdp

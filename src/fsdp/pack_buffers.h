// Places in one memory for buffers that are there by turns: those that are there at a time do not overlap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace shoal::fsdp {

struct PackedBuffer {
  std::size_t step;    // when it is used first
  std::int64_t bytes;  // a multiple of the alignment that places are to have
  std::int64_t place = 0;
  std::int64_t end() const { return place + bytes; }
};

// Whether buffers of two steps, the earlier one first, are there at a time. Those of a step's own always are.
using BuffersMeet = std::function<bool(std::size_t, std::size_t)>;

// Gives the buffers, which come in the order of their steps, their places, and returns the bytes of the memory: those
// that are there at most at a time, unless a search of bounded length finds no places in so few.
std::int64_t pack_buffers(std::vector<PackedBuffer>& buffers, const BuffersMeet& meet);

}  // namespace shoal::fsdp

// What follows an all-to-all of a gradient: the values that came from the ranks, a row each, are added up. Sums over
// ranks are so taken in more digits than were sent, and in an order that does not depend on when anything arrived.
#pragma once

#include <cstdint>

#include "shard/dtype.h"

namespace shoal::kernels {

struct RankRows {
  const void* data = nullptr;  // [ranks][count], contiguous
  DType dtype = DType::float32;
  std::int64_t count = 0;
  int ranks = 1;
};

struct RankSum {
  void* data = nullptr;  // [count], no part of the rows
  DType dtype = DType::float32;
  bool add = false;  // to what is there: data + sum; else the sum takes its place
};

// The sum of each column in the type of `to`, float32 or float64, which must hold every value of the rows' floating
// type. The order is comm::local_reduce()'s binary tree: neighbours are paired, then neighbouring pairs, and an odd
// one out moves up. The same bits on every device. InternalError for other types.
void sum_ranks(const RankRows& rows, const RankSum& to);  // memory of the host
// Memory of the current GPU, in the order of `stream` (a cudaStream_t). DeviceError where the build has no CUDA, or for
// other types. Rows and sum that are aligned to 16 bytes are read and written 16 bytes at a time.
void sum_ranks_on_device(const RankRows& rows, const RankSum& to, void* stream);

// For implementations: whether these types can be summed.
constexpr bool is_summable(DType from, DType to) noexcept {
  const bool wide = to == DType::float32 || to == DType::float64;
  return wide && is_floating(from) && !is_float8(from) && (from != DType::float64 || to == DType::float64);
}

}  // namespace shoal::kernels

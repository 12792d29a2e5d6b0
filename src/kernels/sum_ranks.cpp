#include "kernels/sum_ranks.h"

#include <algorithm>
#include <array>
#include <bit>
#include <memory>

#include "core/check.h"
#include "core/half.h"

namespace shoal::kernels {
namespace {

float widened(BFloat16 x) { return to_float(x); }
float widened(Float16 x) { return to_float(x); }
float widened(float x) { return x; }
double widened(double x) { return x; }

// A block stays in the first cache while all rows pass over it.
constexpr std::int64_t kBlock = 2048;

template <typename T, typename A>
class BlockSum {
 public:
  using Buffer = std::array<A, kBlock>;

  explicit BlockSum(const RankRows& rows)
      : rows_(static_cast<const T*>(rows.data)),
        count_(rows.count),
        ranks_(static_cast<std::size_t>(rows.ranks)),
        buffers_(std::make_unique_for_overwrite<Buffer[]>(std::bit_width(ranks_))) {}

  // Of the columns [begin, begin + width), width <= kBlock.
  const Buffer& sum(std::int64_t begin, std::int64_t width) {
    begin_ = begin, width_ = width;
    branch(0, ranks_, buffers_.get());
    return buffers_[0];
  }

 private:
  // The sum of some rows goes to the first of `buffers`; the others hold branches that wait for their neighbour. To
  // pair neighbours, then neighbouring pairs, and so on is to cut at the largest power of two below the number.
  void branch(std::size_t first, std::size_t rows, Buffer* buffers) {
    A* const to = buffers->data();
    if (rows == 1) {
      const T* const from = rows_ + static_cast<std::int64_t>(first) * count_ + begin_;
      for (std::int64_t i = 0; i < width_; ++i) to[i] = static_cast<A>(widened(from[i]));
      return;
    }
    const std::size_t left = std::bit_floor(rows - 1);
    branch(first, left, buffers);
    branch(first + left, rows - left, buffers + 1);
    const A* const right = buffers[1].data();
    for (std::int64_t i = 0; i < width_; ++i) to[i] += right[i];
  }

  const T* rows_;
  std::int64_t count_;
  std::size_t ranks_;
  std::unique_ptr<Buffer[]> buffers_;
  std::int64_t begin_ = 0, width_ = 0;
};

template <typename T, typename A>
void sum_typed(const RankRows& rows, const RankSum& to) {
  BlockSum<T, A> blocks(rows);
  auto* const out = static_cast<A*>(to.data);
  for (std::int64_t begin = 0; begin < rows.count; begin += kBlock) {
    const std::int64_t width = std::min(kBlock, rows.count - begin);
    const auto& sum = blocks.sum(begin, width);
    for (std::int64_t i = 0; i < width; ++i) out[begin + i] = to.add ? out[begin + i] + sum[i] : sum[i];
  }
}

template <typename A>
void sum_into(const RankRows& rows, const RankSum& to) {
  switch (rows.dtype) {
    case DType::bfloat16: return sum_typed<BFloat16, A>(rows, to);
    case DType::float16: return sum_typed<Float16, A>(rows, to);
    case DType::float32: return sum_typed<float, A>(rows, to);
    default: return sum_typed<double, double>(rows, to);
  }
}

}  // namespace

void sum_ranks(const RankRows& rows, const RankSum& to) {
  SHOAL_CHECK(is_summable(rows.dtype, to.dtype) && rows.ranks >= 1, InternalError,
              "{} rows of {} cannot be summed in {}", rows.ranks, name_of(rows.dtype), name_of(to.dtype));
  to.dtype == DType::float32 ? sum_into<float>(rows, to) : sum_into<double>(rows, to);
}

}  // namespace shoal::kernels

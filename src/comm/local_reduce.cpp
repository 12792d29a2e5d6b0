#include "comm/local_reduce.h"

#include <algorithm>
#include <array>

#include "core/check.h"
#include "core/half.h"

namespace shoal::comm {
namespace {

// How an element is held while it is accumulated.
template <typename T>
struct Accumulate {
  using Type = T;
  static Type load(T x) { return x; }
  static T store(Type x) { return x; }
};
template <>
struct Accumulate<BFloat16> {
  using Type = float;
  static Type load(BFloat16 x) { return to_float(x); }
  static BFloat16 store(Type x) { return to_bfloat16(x); }
};
template <>
struct Accumulate<Float16> {
  using Type = float;
  static Type load(Float16 x) { return to_float(x); }
  static Float16 store(Type x) { return to_float16(x); }
};

template <typename T, typename Op>
void reduce_blocks(std::span<const void* const> inputs, T* output, std::int64_t count, Op op) {
  using A = Accumulate<T>;
  // A block stays in the first cache while all inputs pass over it.
  constexpr std::int64_t kBlock = 2048;
  std::array<typename A::Type, kBlock> sum;
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t n = std::min(kBlock, count - begin);
    const T* first = static_cast<const T*>(inputs[0]) + begin;
    for (std::int64_t i = 0; i < n; ++i) sum[i] = A::load(first[i]);
    for (std::size_t k = 1; k < inputs.size(); ++k) {
      const T* next = static_cast<const T*>(inputs[k]) + begin;
      for (std::int64_t i = 0; i < n; ++i) sum[i] = op(sum[i], A::load(next[i]));
    }
    for (std::int64_t i = 0; i < n; ++i) output[begin + i] = A::store(sum[i]);
  }
}

template <typename T>
void reduce_typed(std::span<const void* const> inputs, void* output, std::int64_t count, ReduceOp op) {
  using V = typename Accumulate<T>::Type;
  auto* out = static_cast<T*>(output);
  switch (op) {
    case ReduceOp::sum: return reduce_blocks<T>(inputs, out, count, [](V a, V b) { return static_cast<V>(a + b); });
    case ReduceOp::max: return reduce_blocks<T>(inputs, out, count, [](V a, V b) { return std::max(a, b); });
    case ReduceOp::min: return reduce_blocks<T>(inputs, out, count, [](V a, V b) { return std::min(a, b); });
  }
}

}  // namespace

void local_reduce(std::span<const void* const> inputs, void* output, std::int64_t count, DType dtype, ReduceOp op) {
  SHOAL_ASSERT(!inputs.empty());
  switch (dtype) {
    case DType::float64: return reduce_typed<double>(inputs, output, count, op);
    case DType::float32: return reduce_typed<float>(inputs, output, count, op);
    case DType::float16: return reduce_typed<Float16>(inputs, output, count, op);
    case DType::bfloat16: return reduce_typed<BFloat16>(inputs, output, count, op);
    case DType::int64: return reduce_typed<std::int64_t>(inputs, output, count, op);
    case DType::int32: return reduce_typed<std::int32_t>(inputs, output, count, op);
    case DType::int16: return reduce_typed<std::int16_t>(inputs, output, count, op);
    case DType::int8: return reduce_typed<std::int8_t>(inputs, output, count, op);
    case DType::uint8:
    case DType::boolean: return reduce_typed<std::uint8_t>(inputs, output, count, op);
  }
}

}  // namespace shoal::comm

#include "comm/local_reduce.h"

#include <algorithm>
#include <array>
#include <bit>
#include <memory>

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

// A block stays in the first cache while all inputs pass over it.
constexpr std::int64_t kBlock = 2048;

template <typename V, typename Term>
void fill(V* to, std::int64_t count, Term term) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = term(i);
}

// Reduces a block of every input into the first of its buffers; the others hold branches that wait for their neighbour.
template <typename T, typename Op>
class BlockTree {
 public:
  using A = Accumulate<T>;
  using Buffer = std::array<typename A::Type, kBlock>;

  BlockTree(std::span<const void* const> inputs, Op op)
      : inputs_(inputs), op_(op), buffers_(std::make_unique_for_overwrite<Buffer[]>(std::bit_width(inputs.size()))) {}

  // Of the elements [begin, begin + count), count <= kBlock.
  const Buffer& reduce(std::int64_t begin, std::int64_t count) {
    begin_ = begin, count_ = count;
    branch(0, inputs_.size(), buffers_.get());
    return buffers_[0];
  }

 private:
  const T* input(std::size_t index) const { return static_cast<const T*>(inputs_[index]) + begin_; }

  // To pair neighbours, then neighbouring pairs, and so on is to cut at the largest power of two below the number.
  void branch(std::size_t first, std::size_t leaves, Buffer* buffers) {
    auto* const to = buffers->data();
    const T* const a = input(first);
    if (leaves == 1) return fill(to, count_, [=](std::int64_t i) { return A::load(a[i]); });
    const std::size_t left = std::bit_floor(leaves - 1);
    const T* const b = input(first + left);
    if (leaves == 2)
      return fill(to, count_, [=, op = op_](std::int64_t i) { return op(A::load(a[i]), A::load(b[i])); });
    branch(first, left, buffers);
    if (leaves - left == 1) return fill(to, count_, [=, op = op_](std::int64_t i) { return op(to[i], A::load(b[i])); });
    branch(first + left, leaves - left, buffers + 1);
    const auto* const right = buffers[1].data();
    fill(to, count_, [=, op = op_](std::int64_t i) { return op(to[i], right[i]); });
  }

  std::span<const void* const> inputs_;
  Op op_;
  std::unique_ptr<Buffer[]> buffers_;
  std::int64_t begin_ = 0, count_ = 0;
};

template <typename T, typename Op>
void reduce_blocks(std::span<const void* const> inputs, T* output, std::int64_t count, Op op) {
  BlockTree<T, Op> tree(inputs, op);
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t n = std::min(kBlock, count - begin);
    const auto& reduced = tree.reduce(begin, n);
    for (std::int64_t i = 0; i < n; ++i) output[begin + i] = Accumulate<T>::store(reduced[i]);
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
    case DType::float8_e4m3fn:
    case DType::float8_e5m2: break;
  }
  throw CommunicationError("there is no reduction of {}", name_of(dtype));
}

}  // namespace shoal::comm

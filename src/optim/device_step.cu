#include "optim/device_step.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstring>
#include <vector>

#include "optim/device_memory.h"
#include "optim/update_rules.h"

namespace shoal::optim {
namespace {

constexpr int kThreads = 256;
constexpr int kVector = 4;  // elements of a load
constexpr std::uintptr_t kLoadBytes = 16;

template <typename T>
struct alignas(kLoadBytes) Four {
  T at[kVector];
};
struct alignas(8) FourHalves {
  unsigned short at[kVector];
};

// As LibTorch rounds: a double becomes a float first.
__device__ unsigned short bits_of(__nv_bfloat16 x) { return __bfloat16_as_ushort(x); }
__device__ unsigned short bits_of(__half x) { return __half_as_ushort(x); }
template <typename T>
__device__ unsigned short half_bits(T x, DType dtype) {
  const float value = static_cast<float>(x);
  return dtype == DType::bfloat16 ? bits_of(__float2bfloat16_rn(value)) : bits_of(__float2half_rn(value));
}

__device__ bool is_half(DType dtype) { return dtype == DType::bfloat16 || dtype == DType::float16; }

template <typename T>
__device__ void store_rounded(const DeviceArrays& a, std::int64_t i, T x) {
  if (a.rounded == nullptr) return;
  if (is_half(a.rounded_dtype))
    static_cast<unsigned short*>(a.rounded)[i] = half_bits(x, a.rounded_dtype);
  else if (a.rounded_dtype == DType::float32)
    static_cast<float*>(a.rounded)[i] = static_cast<float>(x);
  else
    static_cast<double*>(a.rounded)[i] = static_cast<double>(x);
}

template <typename T>
__device__ void store_rounded(const DeviceArrays& a, std::int64_t i, const Four<T>& four) {
  if (a.rounded == nullptr) return;
  if (is_half(a.rounded_dtype)) {
    FourHalves halves;
    for (int k = 0; k < kVector; ++k) halves.at[k] = half_bits(four.at[k], a.rounded_dtype);
    *reinterpret_cast<FourHalves*>(static_cast<unsigned short*>(a.rounded) + i) = halves;
  } else {
    for (int k = 0; k < kVector; ++k) store_rounded(a, i + k, four.at[k]);
  }
}

template <typename T, typename Rule>
__device__ void step_one(const Rule& rule, const DeviceArrays& a, std::int64_t i) {
  T* const param = static_cast<T*>(a.param) + i;
  const T grad = static_cast<const T*>(a.grad)[i];
  if constexpr (Rule::kStates == 0)
    rule(*param, grad);
  else if constexpr (Rule::kStates == 1)
    rule(*param, grad, static_cast<T*>(a.state0)[i]);
  else
    rule(*param, grad, static_cast<T*>(a.state0)[i], static_cast<T*>(a.state1)[i]);
  store_rounded(a, i, *param);
}

template <typename T>
__device__ Four<T>* four_at(void* array, std::int64_t i) {
  return reinterpret_cast<Four<T>*>(static_cast<T*>(array) + i);
}

template <typename T, typename Rule>
__device__ void step_four(const Rule& rule, const DeviceArrays& a, std::int64_t i) {
  Four<T> param = *four_at<T>(a.param, i);
  const Four<T> grad = *reinterpret_cast<const Four<T>*>(static_cast<const T*>(a.grad) + i);
  if constexpr (Rule::kStates == 0) {
    for (int k = 0; k < kVector; ++k) rule(param.at[k], grad.at[k]);
  } else if constexpr (Rule::kStates == 1) {
    Four<T> state = *four_at<T>(a.state0, i);
    for (int k = 0; k < kVector; ++k) rule(param.at[k], grad.at[k], state.at[k]);
    *four_at<T>(a.state0, i) = state;
  } else {
    Four<T> state0 = *four_at<T>(a.state0, i), state1 = *four_at<T>(a.state1, i);
    for (int k = 0; k < kVector; ++k) rule(param.at[k], grad.at[k], state0.at[k], state1.at[k]);
    *four_at<T>(a.state0, i) = state0;
    *four_at<T>(a.state1, i) = state1;
  }
  *four_at<T>(a.param, i) = param;
  store_rounded(a, i, param);
}

// A block has a piece, a thread groups of four elements of it that begin at multiples of four in the array; the groups
// at the piece's ends may lie in it only in part.
template <typename T, typename Rule>
__global__ void __launch_bounds__(kThreads)
    step_kernel(const DevicePiece* pieces, const DeviceArrays* arrays, const Rule* rules) {
  const DevicePiece piece = pieces[blockIdx.x];
  const DeviceArrays a = arrays[piece.array];
  if (a.grad == nullptr) return;
  const Rule rule = rules[piece.group];
  const std::int64_t first = piece.begin - piece.begin % kVector;
  for (std::int64_t i = first + kVector * threadIdx.x; i < piece.end; i += kVector * kThreads) {
    if (a.aligned && i >= piece.begin && i + kVector <= piece.end) {
      step_four<T>(rule, a, i);
    } else {
      for (std::int64_t k = i; k < i + kVector; ++k)
        if (k >= piece.begin && k < piece.end) step_one<T>(rule, a, k);
    }
  }
}

bool is_aligned(const DeviceArrays& a) {
  std::uintptr_t bits = 0;
  for (const void* array : {static_cast<const void*>(a.param), a.grad, static_cast<const void*>(a.state0),
                            static_cast<const void*>(a.state1), static_cast<const void*>(a.rounded)})
    bits |= reinterpret_cast<std::uintptr_t>(array);
  return bits % kLoadBytes == 0;
}

}  // namespace

template <typename T, typename Rule>
void step_on_device(DeviceTable& table, std::span<const DeviceArrays> arrays, std::span<const Rule> rules,
                    void* stream) {
  if (table.size() == 0) return;
  static_assert(sizeof(DeviceArrays) % alignof(Rule) == 0);
  std::vector<char> message(arrays.size_bytes() + rules.size_bytes());
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    DeviceArrays a = arrays[i];
    a.aligned = is_aligned(a);
    std::memcpy(message.data() + i * sizeof a, &a, sizeof a);
  }
  std::memcpy(message.data() + arrays.size_bytes(), rules.data(), rules.size_bytes());
  const auto* const there = static_cast<const char*>(table.upload(message.data(), message.size(), stream));
  step_kernel<T, Rule><<<static_cast<unsigned>(table.size()), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      table.pieces(), reinterpret_cast<const DeviceArrays*>(there),
      reinterpret_cast<const Rule*>(there + arrays.size_bytes()));
  check_cuda(cudaGetLastError(), "the optimizer's kernel");
}

#define SHOAL_INSTANTIATE(T, ...)                                                           \
  template void step_on_device<T, __VA_ARGS__>(DeviceTable&, std::span<const DeviceArrays>, \
                                               std::span<const __VA_ARGS__>, void*);
#include "optim/device_rules.inc"
#undef SHOAL_INSTANTIATE

}  // namespace shoal::optim

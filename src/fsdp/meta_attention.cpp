// Attention without values: which kernel LibTorch takes, what that one keeps for backward, and its scratch memory.
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_sdp_choice.h>
#include <ATen/ops/_scaled_dot_product_attention_math.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>

#include <algorithm>

#include "fsdp/meta_shapes.h"

namespace shoal::fsdp::meta_shapes {
namespace {

// As LibTorch numbers its kernels (SDPBackend).
constexpr std::int64_t kFlash = 1;
// The widest head of the GPU's kernels.
constexpr std::int64_t kWidestHead = 256;
// LibTorch's kernel for the CPU works on so many queries and keys at a time.
constexpr std::int64_t kKeysAtOnce = 512;

std::int64_t queries_at_once(std::int64_t length) {
  constexpr std::int64_t kLong = 768, kMiddling = 192;
  return std::min<std::int64_t>(length, length >= kLong ? 256 : length >= kMiddling ? 64 : 32);
}

at::TensorOptions exact(const Tensor& x) { return x.options().dtype(c10::promoteTypes(x.scalar_type(), at::kFloat)); }

bool has_fewer_digits(const Tensor& x) { return c10::elementSize(x.scalar_type()) < sizeof(float); }

// The same on the CPU, in memory that nobody touches.
Tensor on_cpu(const Tensor& x) { return at::empty_strided(x.sizes(), x.strides(), x.options().device(at::kCPU)); }

bool cpu_takes_flash(const Tensor& query, const Tensor& key, const Tensor& value, const OptionalTensor& mask,
                     double dropout, bool causal, std::optional<double> scale, bool grouped) {
  const at::NoGradGuard no_grad;
  const OptionalTensor masked = mask && mask->defined() ? OptionalTensor(on_cpu(*mask)) : std::nullopt;
  return at::_fused_sdp_choice(on_cpu(query), on_cpu(key), on_cpu(value), masked, dropout, causal, scale, grouped) ==
         kFlash;
}

// That for fp32 shares no keys.
bool gpu_takes_a_kernel(const Tensor& query, const Tensor& value, bool grouped) {
  return query.dim() == 4 && query.scalar_type() != at::kDouble && query.size(3) <= kWidestHead &&
         value.size(3) <= kWidestHead && !(grouped && query.scalar_type() == at::kFloat);
}

// [n, heads, T, d] whose dimensions are in memory in the order of those of `x`, which may be a part of something wider.
Tensor laid_out_like(const Tensor& x) {
  return x.stride(2) > x.stride(1)
             ? at::empty({x.size(0), x.size(2), x.size(1), x.size(3)}, x.options()).transpose(1, 2)
             : at::empty(x.sizes(), x.options());
}

}  // namespace

template <bool kOnGpu>
Tensor choose_attention(const Tensor& query, const Tensor& key, const Tensor& value, const OptionalTensor& mask,
                        double dropout, bool causal, std::optional<double> scale, bool grouped) {
  if (kOnGpu && gpu_takes_a_kernel(query, value, grouped))
    return std::get<0>(at::_scaled_dot_product_cudnn_attention(query, key, value, mask, /*compute_log_sumexp=*/true,
                                                               dropout, causal, /*return_debug_mask=*/false, scale));
  if (!kOnGpu && cpu_takes_flash(query, key, value, mask, dropout, causal, scale, grouped))
    return std::get<0>(
        at::_scaled_dot_product_flash_attention_for_cpu(query, key, value, dropout, causal, mask, scale));
  return std::get<0>(at::_scaled_dot_product_attention_math(query, key, value, mask, dropout, causal,
                                                            /*dropout_mask=*/std::nullopt, scale, grouped));
}
template Tensor choose_attention<true>(const Tensor&, const Tensor&, const Tensor&, const OptionalTensor&, double, bool,
                                       std::optional<double>, bool);
template Tensor choose_attention<false>(const Tensor&, const Tensor&, const Tensor&, const OptionalTensor&, double,
                                        bool, std::optional<double>, bool);

std::tuple<Tensor, Tensor> attention_on_cpu(const Tensor& query, const Tensor& key, const Tensor& value,
                                            double /*dropout*/, bool /*causal*/, const OptionalTensor& /*mask*/,
                                            std::optional<double> /*scale*/) {
  const std::int64_t n = query.size(0), heads = query.size(1), length = query.size(2), d = value.size(3);
  const Tensor out = at::empty({n, length, heads, d}, query.options());
  const Tensor logsumexp = at::empty({n, length, heads}, exact(query));
  const std::int64_t queries = queries_at_once(length), keys = std::min(kKeysAtOnce, key.size(2));
  const std::int64_t threads = at::get_num_threads();
  const Tensor scratch = at::empty({threads, queries * keys + 2 * queries + queries * d}, exact(query));
  const Tensor reduced = at::empty({threads, queries, has_fewer_digits(query) ? keys : 0}, query.options());
  return {out.transpose(1, 2), logsumexp.transpose(1, 2)};
}

std::tuple<Tensor, Tensor, Tensor> attention_on_cpu_backward(const Tensor& /*grad*/, const Tensor& query,
                                                             const Tensor& key, const Tensor& value,
                                                             const Tensor& /*out*/, const Tensor& /*logsumexp*/,
                                                             double /*dropout*/, bool /*causal*/,
                                                             const OptionalTensor& /*mask*/,
                                                             std::optional<double> /*scale*/) {
  const auto gradient = [](const Tensor& x) {
    return at::empty({x.size(0), x.size(2), x.size(1), x.size(3)}, x.options()).transpose(1, 2);
  };
  const std::int64_t queries = queries_at_once(query.size(2)), keys = std::min(kKeysAtOnce, key.size(2));
  const std::int64_t threads = at::get_num_threads();
  auto gradients = std::tuple(gradient(query), gradient(key), gradient(value));
  const Tensor scratch = at::empty({threads, 2 * queries * keys}, exact(query));
  const Tensor reduced = at::empty({threads, 2, queries, has_fewer_digits(query) ? keys : 0}, query.options());
  return gradients;
}

std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor> attention_on_gpu(
    const Tensor& query, const Tensor& key, const Tensor& value, const OptionalTensor& /*mask*/,
    bool /*with_logsumexp*/, double /*dropout*/, bool /*causal*/, bool /*debug*/, std::optional<double> /*scale*/) {
  const Tensor out = value.size(3) == query.size(3)
                         ? laid_out_like(query)
                         : at::empty({query.size(0), query.size(1), query.size(2), value.size(3)}, query.options());
  const Tensor logsumexp = at::empty({query.size(0), query.size(1), query.size(2), 1}, exact(query));
  const auto place = [&] { return at::empty({}, query.options().dtype(at::kLong)); };  // of the random numbers
  return {out, logsumexp, Tensor(), Tensor(), query.size(2), key.size(2), place(), place(), Tensor()};
}

// Beside the gradients, those of the queries are summed in fp32, and a number a row is kept.
std::tuple<Tensor, Tensor, Tensor> attention_on_gpu_backward(
    const Tensor& /*grad*/, const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& /*out*/,
    const Tensor& logsumexp, const Tensor& /*seed*/, const Tensor& /*offset*/, const Tensor& /*mask*/,
    const Tensor& /*lengths_q*/, const Tensor& /*lengths_k*/, c10::SymInt /*longest_q*/, c10::SymInt /*longest_k*/,
    double /*dropout*/, bool /*causal*/, std::optional<double> /*scale*/) {
  auto gradients = std::tuple(laid_out_like(query), laid_out_like(key), laid_out_like(value));
  const Tensor sums = at::empty(query.sizes(), exact(query)), rows = at::empty_like(logsumexp);
  return gradients;
}

}  // namespace shoal::fsdp::meta_shapes

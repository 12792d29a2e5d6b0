// What operators of LibTorch give and need on the way, in shapes and types alone: those that LibTorch knows no such
// function for outside of Python. Registered by torch_internals::MetaOperators, so the signatures are LibTorch's.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/SymInt.h>
#include <c10/core/SymIntArrayRef.h>

#include <array>
#include <cstdint>
#include <optional>
#include <tuple>

namespace shoal::fsdp::meta_shapes {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

Tensor relu(const Tensor& self);
Tensor& relu_in_place(Tensor& self);
Tensor& where_out(const Tensor& condition, const Tensor& self, const Tensor& other, Tensor& out);
Tensor index_select(const Tensor& self, std::int64_t dim, const Tensor& index);
Tensor nonzero_static(const Tensor& self, c10::SymInt size, std::int64_t fill_value);
Tensor select_backward(const Tensor& grad, c10::SymIntArrayRef input_sizes, std::int64_t dim, c10::SymInt index);

// kOnGpu: statistics are in fp32.
template <bool kOnGpu>
std::tuple<Tensor, Tensor, Tensor> layer_norm(const Tensor& input, c10::SymIntArrayRef normalized_shape,
                                              const OptionalTensor& weight, const OptionalTensor& bias, double eps);
std::tuple<Tensor, Tensor, Tensor> layer_norm_backward(const Tensor& grad, const Tensor& input,
                                                       c10::SymIntArrayRef normalized_shape, const Tensor& mean,
                                                       const Tensor& rstd, const OptionalTensor& weight,
                                                       const OptionalTensor& bias, std::array<bool, 3> wanted);
std::tuple<Tensor, Tensor> dropout(const Tensor& input, double p, std::optional<bool> train);
Tensor dropout_backward(const Tensor& grad, const Tensor& mask, double scale);
Tensor choose_dropout(const Tensor& input, double p, bool train);

Tensor convolution(const Tensor& input, const Tensor& weight, const OptionalTensor& bias, c10::SymIntArrayRef stride,
                   c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation, bool transposed,
                   c10::SymIntArrayRef output_padding, c10::SymInt groups);
std::tuple<Tensor, Tensor, Tensor> convolution_backward(const Tensor& grad, const Tensor& input, const Tensor& weight,
                                                        at::OptionalSymIntArrayRef bias_sizes,
                                                        c10::SymIntArrayRef stride, c10::SymIntArrayRef padding,
                                                        c10::SymIntArrayRef dilation, bool transposed,
                                                        c10::SymIntArrayRef output_padding, c10::SymInt groups,
                                                        std::array<bool, 3> wanted);
// On a GPU rows are sorted by token and summed in parts.
template <bool kOnGpu>
Tensor embedding_backward(const Tensor& grad, const Tensor& indices, c10::SymInt num_weights, c10::SymInt padding_idx,
                          bool scale_grad_by_freq);

// The kernel that LibTorch takes for these arguments on a GPU, or on the CPU.
template <bool kOnGpu>
Tensor choose_attention(const Tensor& query, const Tensor& key, const Tensor& value, const OptionalTensor& mask,
                        double dropout, bool causal, std::optional<double> scale, bool grouped);
std::tuple<Tensor, Tensor> attention_on_cpu(const Tensor& query, const Tensor& key, const Tensor& value, double dropout,
                                            bool causal, const OptionalTensor& mask, std::optional<double> scale);
std::tuple<Tensor, Tensor, Tensor> attention_on_cpu_backward(const Tensor& grad, const Tensor& query, const Tensor& key,
                                                             const Tensor& value, const Tensor& out,
                                                             const Tensor& logsumexp, double dropout, bool causal,
                                                             const OptionalTensor& mask, std::optional<double> scale);
// cuDNN's; the flash kernel keeps as much.
std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor> attention_on_gpu(
    const Tensor& query, const Tensor& key, const Tensor& value, const OptionalTensor& mask, bool with_logsumexp,
    double dropout, bool causal, bool debug, std::optional<double> scale);
std::tuple<Tensor, Tensor, Tensor> attention_on_gpu_backward(const Tensor& grad, const Tensor& query, const Tensor& key,
                                                             const Tensor& value, const Tensor& out,
                                                             const Tensor& logsumexp, const Tensor& seed,
                                                             const Tensor& offset, const Tensor& mask,
                                                             const Tensor& lengths_q, const Tensor& lengths_k,
                                                             c10::SymInt longest_q, c10::SymInt longest_k,
                                                             double dropout, bool causal, std::optional<double> scale);

}  // namespace shoal::fsdp::meta_shapes

#include "fsdp/torch_internals_meta.h"

#include <c10/core/Allocator.h>
#include <torch/library.h>

#include <algorithm>
#include <utility>

#include "fsdp/meta_shapes.h"

namespace shoal::fsdp::torch_internals {

struct MetaMemory::Counts {
  std::int64_t granularity = 1, live = 0, peak = 0, recent_peak = 0;
};

namespace {

thread_local std::shared_ptr<MetaMemory::Counts> g_counts;
thread_local bool g_uncounted = false;

struct Counted {
  std::shared_ptr<MetaMemory::Counts> counts;
  std::int64_t bytes;
};

void free_counted(void* context) {
  const std::unique_ptr<Counted> counted(static_cast<Counted*>(context));
  counted->counts->live -= counted->bytes;
}

// Stands for LibTorch's own from the first MetaMemory on: storages refer to the allocator that they were made by.
class MetaAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    if (!g_counts || g_uncounted || bytes == 0) return {nullptr, nullptr, &c10::detail::deleteNothing, at::kMeta};
    const std::int64_t unit = g_counts->granularity;
    const std::int64_t counted = (static_cast<std::int64_t>(bytes) + unit - 1) / unit * unit;
    g_counts->live += counted;
    g_counts->peak = std::max(g_counts->peak, g_counts->live);
    g_counts->recent_peak = std::max(g_counts->recent_peak, g_counts->live);
    return {nullptr, new Counted{g_counts, counted}, &free_counted, at::kMeta};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* /*to*/, const void* /*from*/, std::size_t /*bytes*/) const override {}
};

void install_allocator() {
  static MetaAllocator allocator;
  static const bool installed = [] {
    constexpr std::uint8_t kAboveLibTorch = 1;
    c10::SetAllocator(at::kMeta, &allocator, kAboveLibTorch);
    return true;
  }();
  (void)installed;
}

}  // namespace

MetaMemory::MetaMemory(std::int64_t granularity) : counts_(std::make_shared<Counts>()) {
  install_allocator();
  counts_->granularity = granularity;
  g_counts = counts_;
}

MetaMemory::~MetaMemory() { g_counts.reset(); }
std::int64_t MetaMemory::live() const { return counts_->live; }
std::int64_t MetaMemory::peak() const { return counts_->peak; }
std::int64_t MetaMemory::take_peak() { return std::exchange(counts_->recent_peak, counts_->live); }

UncountedScope::UncountedScope() : outer_(std::exchange(g_uncounted, true)) {}
UncountedScope::~UncountedScope() { g_uncounted = outer_; }

struct MetaOperators::Libraries {
  torch::Library shapes{torch::Library::IMPL, "aten", c10::DispatchKey::Meta, __FILE__, __LINE__};
  torch::Library choices{torch::Library::IMPL, "aten", c10::DispatchKey::AutogradMeta, __FILE__, __LINE__};
};

MetaOperators::MetaOperators(bool on_gpu) : libraries_(std::make_unique<Libraries>()) {
  namespace meta = meta_shapes;
  torch::Library& shapes = libraries_->shapes;
  shapes.impl("relu", &meta::relu);
  shapes.impl("relu_", &meta::relu_in_place);
  shapes.impl("where.self_out", &meta::where_out);
  shapes.impl("index_select", &meta::index_select);
  shapes.impl("nonzero_static", &meta::nonzero_static);
  shapes.impl("select_backward", &meta::select_backward);
  shapes.impl("native_layer_norm", on_gpu ? &meta::layer_norm<true> : &meta::layer_norm<false>);
  shapes.impl("native_layer_norm_backward", &meta::layer_norm_backward);
  shapes.impl("native_dropout", &meta::dropout);
  shapes.impl("native_dropout_backward", &meta::dropout_backward);
  shapes.impl("convolution", &meta::convolution);
  shapes.impl("convolution_backward", &meta::convolution_backward);
  shapes.impl("embedding_dense_backward", on_gpu ? &meta::embedding_backward<true> : &meta::embedding_backward<false>);
  shapes.impl("_scaled_dot_product_flash_attention_for_cpu", &meta::attention_on_cpu);
  shapes.impl("_scaled_dot_product_flash_attention_for_cpu_backward", &meta::attention_on_cpu_backward);
  shapes.impl("_scaled_dot_product_cudnn_attention", &meta::attention_on_gpu);
  shapes.impl("_scaled_dot_product_cudnn_attention_backward", &meta::attention_on_gpu_backward);
  libraries_->choices.impl("scaled_dot_product_attention",
                           on_gpu ? &meta::choose_attention<true> : &meta::choose_attention<false>);
  if (on_gpu) libraries_->choices.impl("dropout", &meta::choose_dropout);
}

MetaOperators::~MetaOperators() = default;

void become(const at::Tensor& tensor, const at::Tensor& other) {
  c10::TensorImpl* const impl = tensor.unsafeGetTensorImpl();
  impl->set_allow_tensor_metadata_change(true);
  impl->shallow_copy_from(other.getIntrusivePtr());
}

}  // namespace shoal::fsdp::torch_internals

#include "models/init.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <cmath>
#include <string>
#include <unordered_set>

#include "core/hash.h"

namespace shoal::models {
namespace {

class Initializer {
 public:
  explicit Initializer(std::uint64_t seed) : key_(hash_combine(hash_string("initial weights"), seed)) {}

  // kaiming_uniform_ with a = sqrt(5) for the weight and uniform_ for the bias come down to the same bound.
  template <typename Layer>
  void uniform_by_fan_in(const std::string& fqn, Layer& layer, std::int64_t fan_in) {
    const double bound = fan_in > 0 ? 1 / std::sqrt(static_cast<double>(fan_in)) : 0;
    draw(fqn + ".weight", layer.weight, [&](at::Tensor& t, const at::Generator& g) { t.uniform_(-bound, bound, g); });
    if (!layer.bias.defined()) return;
    draw(fqn + ".bias", layer.bias, [&](at::Tensor& t, const at::Generator& g) { t.uniform_(-bound, bound, g); });
  }

  void embedding(const std::string& fqn, torch::nn::EmbeddingImpl& layer) {
    draw(fqn + ".weight", layer.weight, [&](at::Tensor& t, const at::Generator& g) {
      t.normal_(0, 1, g);
      if (layer.options.padding_idx()) t[*layer.options.padding_idx()].zero_();
    });
  }

  void normal(const std::string& fqn, at::Tensor& parameter, double std) {
    draw(fqn, parameter, [std](at::Tensor& t, const at::Generator& g) { t.normal_(0, std, g); });
  }

 private:
  template <typename Fill>
  void draw(const std::string& fqn, at::Tensor& parameter, const Fill& fill) {
    if (!drawn_.insert(parameter.unsafeGetTensorImpl()).second) return;
    const std::string name = fqn.starts_with('.') ? fqn.substr(1) : fqn;  // a layer that is the root itself
    fill(parameter, at::detail::createCPUGenerator(hash_combine(key_, hash_string(name))));
  }

  std::uint64_t key_;
  std::unordered_set<const c10::TensorImpl*> drawn_;
};

// Of a weight [out, in / groups, kernel…]: elements of one output's filter. Transposed convolutions have [in, out / …];
// torch's rule looks at dimension 1 all the same.
std::int64_t fan_in_of(const at::Tensor& weight) { return weight.numel() / std::max<std::int64_t>(weight.size(0), 1); }

template <typename... Layers>
bool initialize_if_any(Initializer& initializer, const std::string& fqn, torch::nn::Module& module) {
  const auto as = [&](auto* layer) {
    if (layer != nullptr) initializer.uniform_by_fan_in(fqn, *layer, fan_in_of(layer->weight));
    return layer != nullptr;
  };
  return (as(dynamic_cast<Layers*>(&module)) || ...);
}

}  // namespace

void initialize_parameters(torch::nn::Module& root, std::uint64_t seed) {
  using namespace torch::nn;
  const at::NoGradGuard no_grad;
  Initializer initializer(seed);
  root.apply([&](const std::string& fqn, Module& module) {
    if (initialize_if_any<LinearImpl, Conv1dImpl, Conv2dImpl, Conv3dImpl, ConvTranspose1dImpl, ConvTranspose2dImpl,
                          ConvTranspose3dImpl>(initializer, fqn, module))
      return;
    if (auto* layer = dynamic_cast<EmbeddingImpl*>(&module)) initializer.embedding(fqn, *layer);
  });
}

void initialize_normal(torch::nn::Module& root, std::uint64_t seed,
                       const std::function<double(const std::string& fqn)>& std_of) {
  const at::NoGradGuard no_grad;
  Initializer initializer(seed);
  for (auto& item : root.named_parameters()) {
    at::Tensor& parameter = item.value();
    if (parameter.dim() >= 2)
      initializer.normal(item.key(), parameter, std_of(item.key()));
    else
      parameter.fill_(item.key().ends_with("bias") ? 0 : 1);
  }
}

}  // namespace shoal::models

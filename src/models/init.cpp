#include "models/init.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <cmath>
#include <string>
#include <unordered_set>

#include "core/counter_normal.h"
#include "core/hash.h"
#include "optim/in_parallel.h"

namespace shoal::models {
namespace {

// An operator, so that deferred initialisation can write it down like those of LibTorch.
TORCH_LIBRARY_FRAGMENT(shoal, library) {
  library.def("normal_by_place_(Tensor(a!) self, float std, int key) -> Tensor(a!)");
}

at::Tensor& normal_by_place(at::Tensor& self, double std, std::int64_t key) {
  if (self.scalar_type() != at::kFloat || !self.is_contiguous()) {
    at::Tensor values = at::empty(self.sizes(), at::kFloat);
    return self.copy_(normal_by_place(values, std, key));
  }
  constexpr std::int64_t kGrain = std::int64_t{1} << 16;  // of some microseconds
  float* const values = self.data_ptr<float>();
  optim::in_parallel(self.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    fill_normal({values + begin, values + end}, static_cast<std::uint64_t>(key), begin, static_cast<float>(std));
  });
  return self;
}

TORCH_LIBRARY_IMPL(shoal, CPU, library) { library.impl("normal_by_place_", &normal_by_place); }
TORCH_LIBRARY_IMPL(shoal, Meta, library) {
  library.impl(
      "normal_by_place_", +[](at::Tensor& self, double, std::int64_t) -> at::Tensor& { return self; });
}
TORCH_LIBRARY_IMPL(shoal, Autograd, library) {  // parameters are initialised without grad mode
  library.impl("normal_by_place_", torch::CppFunction::makeFallthrough());
}

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
    static const auto op = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("shoal::normal_by_place_", "")
                               .typed<at::Tensor&(at::Tensor&, double, std::int64_t)>();
    if (is_first(parameter)) op.call(parameter, std, static_cast<std::int64_t>(key_of(fqn)));
  }

 private:
  template <typename Fill>
  void draw(const std::string& fqn, at::Tensor& parameter, const Fill& fill) {
    if (is_first(parameter)) fill(parameter, at::detail::createCPUGenerator(key_of(fqn)));
  }
  // Tied parameters are drawn once.
  bool is_first(const at::Tensor& parameter) { return drawn_.insert(parameter.unsafeGetTensorImpl()).second; }
  std::uint64_t key_of(const std::string& fqn) const {
    const std::string name = fqn.starts_with('.') ? fqn.substr(1) : fqn;  // a layer that is the root itself
    return hash_combine(key_, hash_string(name));
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

#include "models/script_model.h"

#include <fmt/ranges.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/script.h>
#include <torch/torch.h>

#include <algorithm>
#include <optional>
#include <unordered_set>
#include <utility>

#include "core/check.h"
#include "data/masked_dataset.h"
#include "data/mnist_dataset.h"
#include "data/token_dataset.h"
#include "models/script_description.h"
#include "models/script_device.h"
#include "models/script_mirror.h"

namespace shoal::models {
namespace {

namespace jit = torch::jit;

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

jit::Module load(const std::filesystem::path& path) {
  try {
    return jit::load(path.string(), at::kCPU, /*load_debug_files=*/false);
  } catch (const std::exception& error) {
    throw OptionError("--model-script {}: LibTorch {} cannot load it: {}", path.string(), TORCH_VERSION,
                      first_line(error.what()));
  }
}

jit::Module model_of(const jit::Module& script, const ScriptDescription& about) {
  if (about.module.empty()) return script;
  for (const auto& child : script.named_children())
    if (child.name == about.module) return child.value;
  throw OptionError("--model-script {}: there is no module '{}', which its shoal.json names", about.path.string(),
                    about.module);
}

void check_methods(const jit::Module& script, const ScriptDescription& about) {
  const std::string path = about.path.string();
  SHOAL_CHECK(script.find_method("forward"), OptionError, "--model-script {}: has no method forward(inputs, targets)",
              path);
  SHOAL_CHECK(about.data != "mnist" || script.find_method("evaluate"), OptionError,
              "--model-script {}: has no method evaluate(inputs, targets), without which there is no accuracy", path);
  for (const jit::Method& method : script.get_methods()) {
    if (!method.name().starts_with("forward") && !method.name().starts_with("evaluate")) continue;
    const std::size_t arguments = method.function().getSchema().arguments().size() - 1;  // without self
    SHOAL_CHECK(arguments == 2, OptionError,
                "--model-script {}: its method {} takes {} arguments; it must take two, inputs and targets, and give "
                "the loss (see docs/from_python.md)",
                path, method.name(), arguments);
  }
}

// What is trained and saved is what lies in the model.
void check_parameters(const jit::Module& script, const torch::nn::Module& mirror, const ScriptDescription& about) {
  std::unordered_set<const void*> inside;
  bool any_trained = false;
  for (const at::Tensor& parameter : mirror.parameters()) {
    inside.insert(parameter.unsafeGetTensorImpl());
    any_trained = any_trained || parameter.requires_grad();
  }
  SHOAL_CHECK(any_trained, OptionError,
              "--model-script {}: has no parameters to train; a frozen module has none (do not call torch.jit.freeze)",
              about.path.string());
  for (const auto& parameter : script.named_parameters())
    SHOAL_CHECK(inside.contains(parameter.value.unsafeGetTensorImpl()), OptionError,
                "--model-script {}: parameter '{}' is no part of module '{}', which its shoal.json names as the model",
                about.path.string(), parameter.name, about.module);
}

const char* suffix_of(at::ScalarType dtype) {
  return dtype == at::kBFloat16 ? "bf16" : dtype == at::kHalf ? "fp16" : "fp32";
}

std::int64_t whole_number(const c10::IValue& value) {
  return value.isTensor() ? value.toTensor().item<std::int64_t>() : value.toInt();
}

double real_number(const c10::IValue& value) {
  return value.isTensor() ? value.toTensor().item<double>() : value.toDouble();
}

bool is_number(const c10::IValue& value) {
  return value.isInt() || value.isDouble() || (value.isTensor() && value.toTensor().numel() == 1);
}

bool is_loss(const c10::IValue& value) { return value.isTensor() && value.toTensor().dim() == 0; }

std::vector<c10::IValue> parts_of(const c10::IValue& value) {
  if (!value.isTuple()) return {value};
  const auto& elements = value.toTupleRef().elements();
  return std::vector<c10::IValue>(elements.begin(), elements.end());
}

class ScriptModel final : public Model {
 public:
  explicit ScriptModel(ScriptDescription about) : about_(std::move(about)), script_(load(about_.path)) {
    check_methods(script_, about_);
    mirror_ = mirror_of(model_of(script_, about_), about_.non_persistent_buffers);
    check_parameters(script_, *mirror_, about_);
    for (const at::Tensor& parameter : mirror_->parameters())
      if (!reference_.defined() && parameter.is_floating_point()) reference_ = parameter;
  }

  std::shared_ptr<torch::nn::Module> module() override { return mirror_; }

  void set_training(bool training) override {
    script_.train(training);  // what a scripted method asks for; a traced one keeps the mode of its trace
    mirror_->train(training);
  }

  void to_device(at::Device device) override {
    set_script_device(script_, device);
    mirror_->to(device);
  }

  LossSum loss(const data::Batch& batch) override {
    const c10::IValue result = call(*method("forward"), batch);
    const std::vector<c10::IValue> parts = parts_of(result);
    const bool fits = is_loss(parts[0]) && (parts.size() == 1 || (parts.size() == 2 && is_number(parts[1])));
    SHOAL_CHECK(fits, OptionError,
                "--model-script {}: forward must give the sum of the losses, a tensor of no dimension, or (sum, count)",
                about_.path.string());
    const auto count = parts.size() == 2 ? whole_number(parts[1]) : batch.targets.ne(-100).sum().item<std::int64_t>();
    return {parts[0].toTensor(), count};
  }

  EvalSum evaluate(const data::Batch& batch) override {
    const std::optional<jit::Method> evaluation = method("evaluate");
    if (!evaluation) {
      const LossSum sum = loss(batch);
      return {sum.sum.item<double>(), 0, sum.count};
    }
    const std::vector<c10::IValue> parts = parts_of(call(*evaluation, batch));
    SHOAL_CHECK(parts.size() == 3 && std::all_of(parts.begin(), parts.end(), is_number), OptionError,
                "--model-script {}: evaluate must give (sum of the losses, right answers, answers), three numbers",
                about_.path.string());
    return {real_number(parts[0]), whole_number(parts[1]), whole_number(parts[2])};
  }

 private:
  // The one made for the element type that the parameters have now. A file that does not say what it is made for has
  // one for all.
  std::optional<jit::Method> method(const std::string& base) const {
    const std::string dtype = suffix_of(reference_.scalar_type());
    if (about_.dtypes.empty()) return script_.find_method(base);
    SHOAL_CHECK(std::count(about_.dtypes.begin(), about_.dtypes.end(), dtype) > 0, OptionError,
                "--param-dtype {0}: {1} was exported for {2}; export it again with --dtypes {2},{0}", dtype,
                about_.path.string(), fmt::join(about_.dtypes, ","));
    return script_.find_method(dtype == "fp32" ? base : base + "_" + dtype);
  }

  c10::IValue call(const jit::Method& method, const data::Batch& batch) const {
    // Optimised graphs fuse operators into kernels that read parameters without anybody being told. The setting is
    // one of the thread.
    const jit::GraphOptimizerEnabledGuard as_written(false);
    const bool floating = batch.inputs.is_floating_point();
    return method({floating ? batch.inputs.to(reference_.scalar_type()) : batch.inputs, batch.targets});
  }

  ScriptDescription about_;
  jit::Module script_;
  std::shared_ptr<torch::nn::Module> mirror_;
  at::Tensor reference_;  // a parameter, which has the type of all
};

std::unique_ptr<data::Dataset> open_data(const ScriptDescription& about, data::DataRequest request, data::Split split) {
  if (about.data == "mnist") return std::make_unique<data::MnistDataset>(request.path, split);
  if (request.vocab_size == 0) request.vocab_size = about.vocab_size;
  if (about.data == "tokens") return data::open_tokens(request, split);
  if (request.mask_token < 0) request.mask_token = about.mask_token;
  return data::open_masked_tokens(request, split);
}

std::unique_ptr<Model> make(const ScriptDescription& about, const ModelOptions& options) {
  const bool as_saved =
      options.vocab_size == about.vocab_size && options.max_positions == about.max_positions && !options.untied_head;
  SHOAL_CHECK(
      as_saved, OptionError,
      "--model-script {}: the shape lies in the file; leave out --vocab-size, --max-positions and --untied-head",
      about.path.string());
  return std::make_unique<ScriptModel>(about);
}

}  // namespace

ModelEntry load_script_model(const std::filesystem::path& path) {
  const ScriptDescription about = read_script_description(path);
  return {.name = about.name,
          .summary = fmt::format("TorchScript of {}", path.string()),
          .defaults = about.defaults,
          .shape = {.vocab_size = about.vocab_size, .max_positions = about.max_positions},
          .metric = about.data == "mnist" ? Metric::accuracy : Metric::perplexity,
          .make = [about](const ModelOptions& options) { return make(about, options); },
          .open_data = [about](const data::DataRequest& request,
                               data::Split split) { return open_data(about, request, split); }};
}

}  // namespace shoal::models

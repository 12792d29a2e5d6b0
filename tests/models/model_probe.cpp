// Runs a built-in model with given weights.
//
//   model_probe IN OUT
//
// IN is what Python's torch.save() makes of a dict: "model" (its name), "options" {option: number}, "weights" {name:
// tensor}, "inputs" and "targets" as a batch has them. The model takes the weights' dtype. OUT gets a dict that
// torch.load() reads: "logits", "loss" (a sum), "count", "names" {alias: name} of all parameters, and "gradients"
// {name: tensor} of the loss.
#include <torch/torch.h>

#include <exception>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "core/check.h"
#include "models/language_model.h"
#include "models/registry.h"

namespace shoal::models {
namespace {

using Dict = c10::Dict<c10::IValue, c10::IValue>;

Dict read(const char* path) {
  std::ifstream file(path, std::ios::binary);
  SHOAL_CHECK(file.good(), IoError, "{} cannot be read", path);
  return torch::pickle_load({std::istreambuf_iterator<char>(file), {}}).toGenericDict();
}

void write(const char* path, const c10::IValue& value) {
  const std::vector<char> bytes = torch::pickle_save(value);
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  SHOAL_CHECK(file.flush().good(), IoError, "{} cannot be written", path);
}

ModelOptions options_from(const Dict& given) {
  static const std::map<std::string, std::int64_t ModelOptions::*> kSizes = {
      {"layers", &ModelOptions::layers},
      {"heads", &ModelOptions::heads},
      {"kv-heads", &ModelOptions::kv_heads},
      {"hidden-size", &ModelOptions::hidden_size},
      {"intermediate-size", &ModelOptions::intermediate_size},
      {"vocab-size", &ModelOptions::vocab_size},
      {"max-positions", &ModelOptions::max_positions}};
  static const std::map<std::string, double ModelOptions::*> kNumbers = {{"dropout", &ModelOptions::dropout},
                                                                         {"rope-theta", &ModelOptions::rope_theta},
                                                                         {"rope-scaling", &ModelOptions::rope_scaling}};
  ModelOptions options;
  for (const auto& item : given) {
    const std::string name = item.key().toStringRef();
    if (name == "untied-head")
      options.untied_head = item.value().toBool();
    else if (kSizes.contains(name))
      options.*kSizes.at(name) = item.value().toInt();
    else
      options.*kNumbers.at(name) = item.value().toScalar().toDouble();
  }
  return options;
}

// Gives each parameter the tensor of its name; what `weights` has besides must be other names of these.
void load(torch::nn::Module& module, const Dict& weights) {
  const at::NoGradGuard no_grad;
  for (const auto& item : module.named_parameters()) {
    SHOAL_CHECK(weights.contains(item.key()), OptionError, "no weights for '{}'", item.key());
    const at::Tensor given = weights.at(item.key()).toTensor();
    SHOAL_CHECK(given.sizes() == item.value().sizes(), OptionError, "'{}' has another shape", item.key());
    item.value().set_data(given.clone());
  }
}

Dict names_of(torch::nn::Module& module) {
  Dict names(c10::StringType::get(), c10::StringType::get());
  std::map<const void*, std::string> first;
  for (const auto& item : module.named_parameters())
    names.insert(item.key(), first.emplace(item.value().unsafeGetTensorImpl(), item.key()).first->second);
  return names;
}

void run(const char* in, const char* out) {
  const Dict request = read(in);
  const ModelEntry& entry = find_model(request.at("model").toStringRef());
  const auto made = entry.make(complete(entry, options_from(request.at("options").toGenericDict())));
  auto& model = dynamic_cast<LanguageModel&>(*made);
  load(*model.module(), request.at("weights").toGenericDict());
  model.set_training(false);
  const data::Batch batch{request.at("inputs").toTensor(), request.at("targets").toTensor()};
  const LossSum loss = model.loss(batch);
  loss.sum.backward();

  Dict result(c10::StringType::get(), c10::AnyType::get()), gradients(c10::StringType::get(), c10::TensorType::get());
  for (const auto& item : model.module()->named_parameters()) gradients.insert(item.key(), item.value().grad());
  const at::NoGradGuard no_grad;
  result.insert("logits", model.logits(batch.inputs));
  result.insert("loss", loss.sum.detach());
  result.insert("count", loss.count);
  result.insert("names", names_of(*model.module()));
  result.insert("gradients", gradients);
  write(out, result);
}

}  // namespace
}  // namespace shoal::models

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: model_probe IN OUT\n";
    return 64;
  }
  try {
    shoal::models::run(argv[1], argv[2]);
  } catch (const std::exception& error) {
    std::cerr << "model_probe: " << error.what() << '\n';
    return 1;
  }
}

// One file, or several of a bounded size with an index, as transformers' save_pretrained() writes them. Of tied names
// one is written; the metadata tell which one stands for the others.
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "checkpoint/export_layout.h"
#include "formats/safetensors.h"

namespace shoal::checkpoint {
namespace {

using Tensors = std::vector<std::size_t>;  // of the plan

// As huggingface_hub splits: in order, a new file where the next tensor would make this one too large; a tensor that is
// too large by itself has a file of its own, and the one begun goes on after it.
std::vector<Tensors> split(const ExportPlan& plan, std::int64_t most_bytes) {
  std::vector<Tensors> files;
  Tensors current;
  std::int64_t current_bytes = 0;
  for (std::size_t i = 0; i < plan.tensors.size(); ++i) {
    const std::int64_t bytes = bytes_of(plan.tensors[i]);
    if (most_bytes > 0 && bytes > most_bytes) {
      files.push_back({i});
      continue;
    }
    if (most_bytes > 0 && current_bytes + bytes > most_bytes) {
      files.push_back(std::exchange(current, {}));
      current_bytes = 0;
    }
    current.push_back(i);
    current_bytes += bytes;
  }
  if (!current.empty() || files.empty()) files.push_back(std::move(current));
  return files;
}

std::string file_name(std::size_t index, std::size_t files) {
  return files == 1 ? "model.safetensors" : fmt::format("model-{:05}-of-{:05}.safetensors", index + 1, files);
}

// "format" is what transformers asks for; "alias: name" is how safetensors.torch.save_model() says what is tied.
std::map<std::string, std::string> metadata_of(const ExportPlan& plan, const Tensors& tensors) {
  std::map<std::string, std::string> metadata{{"format", "pt"}};
  for (const auto& [alias, tensor] : plan.aliases)
    if (std::binary_search(tensors.begin(), tensors.end(), tensor)) metadata[alias] = plan.tensors[tensor].spec.name;
  return metadata;
}

std::string index_text(const ExportPlan& plan, const std::vector<Tensors>& files) {
  nlohmann::json index{{"metadata", {{"total_size", plan.tensor_bytes()}}}, {"weight_map", nlohmann::json::object()}};
  for (std::size_t file = 0; file < files.size(); ++file)
    for (const std::size_t tensor : files[file])
      index["weight_map"][plan.tensors[tensor].spec.name] = file_name(file, files.size());
  return index.dump(2) + "\n";
}

}  // namespace

ExportLayout lay_out_safetensors(const std::filesystem::path& output, const ExportPlan& plan, std::int64_t most_bytes,
                                 const std::string& config) {
  ExportLayout layout;
  layout.places.resize(plan.tensors.size());
  std::vector<ExportRecord> records;
  const std::vector<Tensors> files = split(plan, most_bytes);
  for (std::size_t file = 0; file < files.size(); ++file) {
    std::vector<TensorSpec> specs;
    for (const std::size_t tensor : files[file]) specs.push_back(plan.tensors[tensor].spec);
    formats::SafetensorsLayout made = formats::lay_out_safetensors(specs, metadata_of(plan, files[file]));
    for (std::size_t i = 0; i < specs.size(); ++i)
      layout.places[files[file][i]] = {file, static_cast<std::int64_t>(made.offsets[i])};
    records.push_back({{file, 0}, std::move(made.header)});
    layout.files.push_back(
        {most_bytes > 0 ? output / file_name(file, files.size()) : output, static_cast<std::int64_t>(made.bytes)});
  }
  const auto add_text = [&](const char* name, std::string text) {
    layout.files.push_back({output / name, static_cast<std::int64_t>(text.size())});
    records.push_back({{layout.files.size() - 1, 0}, std::move(text)});
  };
  if (most_bytes > 0 && !config.empty()) add_text("config.json", config);
  // Last, so that whoever finds it finds the others.
  if (files.size() > 1) add_text("model.safetensors.index.json", index_text(plan, files));
  layout.records = [records = std::move(records)](const std::vector<WrittenPart>&) { return records; };
  return layout;
}

}  // namespace shoal::checkpoint

#include <map>
#include <nlohmann/json.hpp>

#include "apps/ckpt_options.h"
#include "apps/ckpt_text.h"
#include "apps/ckpt_verbs.h"
#include "checkpoint/catalog.h"
#include "core/logging.h"

namespace shoal::apps {
namespace {

using Json = nlohmann::ordered_json;

std::string cut_text(const ShardRule& rule) {
  return rule.unit.empty() ? "whole" : fmt::format("{} + {}", rule.unit, rule.unit_offset);
}

// Files that hold some of the tensor, if every rank of the shard group wrote what it held.
std::int64_t shards_of(const checkpoint::SavedTensor& tensor) {
  const std::int64_t numel = tensor.spec.numel(), begin = tensor.rule.unit_offset, shard = tensor.rule.shard_numel;
  if (tensor.rule.unit.empty() || numel == 0 || shard <= 0) return numel > 0 ? 1 : 0;
  return (begin + numel - 1) / shard - begin / shard + 1;
}

std::int64_t bytes_of(const TensorSpec& spec) { return spec.numel() * size_of(spec.dtype); }

struct Module {
  std::int64_t tensors = 0, elements = 0, bytes = 0;
};

// "model" and "model/h.0" for "model/h.0.weight"; a tensor's own name is no module.
std::vector<std::string> modules_above(const std::string& name) {
  std::vector<std::string> modules;
  for (std::size_t at = name.find_first_of("/."); at != std::string::npos; at = name.find_first_of("/.", at + 1))
    modules.push_back(name.substr(0, at));
  return modules;
}

// In the order in which the manifest comes to them.
std::vector<std::pair<std::string, Module>> modules_of(const checkpoint::Manifest& manifest) {
  std::vector<std::pair<std::string, Module>> modules;
  std::map<std::string, std::size_t> place;
  for (const auto& [spec, rule] : manifest.tensors)
    for (const std::string& name : modules_above(spec.name)) {
      if (place.emplace(name, modules.size()).second) modules.emplace_back(name, Module{});
      Module& module = modules[place[name]].second;
      module.tensors += 1;
      module.elements += spec.numel();
      module.bytes += bytes_of(spec);
    }
  return modules;
}

// Each module below the one that it is part of, two columns further in.
std::string tree_text(const checkpoint::Manifest& manifest) {
  std::vector<std::vector<std::string>> rows{{"module", "tensors", "elements", "size"}};
  for (const auto& [name, module] : modules_of(manifest)) {
    const std::size_t depth = modules_above(name).size();
    const std::size_t last = name.find_last_of("/.");
    rows.push_back({std::string(2 * depth, ' ') + (last == std::string::npos ? name : name.substr(last + 1)),
                    std::to_string(module.tensors), std::to_string(module.elements), human_bytes(module.bytes)});
  }
  return table_text(rows);
}

std::string tensors_text(const checkpoint::Manifest& manifest) {
  std::vector<std::vector<std::string>> rows{
      {"tensor", "type", "shape", "elements", "size", "shards", "unit + offset"}};
  for (const checkpoint::SavedTensor& tensor : manifest.tensors) {
    const TensorSpec& spec = tensor.spec;
    rows.push_back({spec.name, std::string(name_of(spec.dtype)), shape_text(spec.shape), std::to_string(spec.numel()),
                    human_bytes(bytes_of(spec)), std::to_string(shards_of(tensor)), cut_text(tensor.rule)});
  }
  return table_text(rows);
}

std::string files_text(const checkpoint::Manifest& manifest) {
  std::vector<std::vector<std::string>> rows{{"file", "size", "regions"}};
  for (const auto& file : manifest.files)
    rows.push_back({file.name, human_bytes(file.bytes), std::to_string(file.regions)});
  return table_text(rows);
}

std::string head_text(const std::string& path, const checkpoint::Manifest& manifest) {
  std::string text = fmt::format("{}\nstep {}, {} ranks, {} tensors, {}\ncheckpoint {}, created {}, with", path,
                                 manifest.step, manifest.ranks, manifest.tensors.size(),
                                 human_bytes(manifest.tensor_bytes()), manifest.id, manifest.created);
  for (const auto& [library, version] : manifest.libraries) text += fmt::format(" {} {}", library, version);
  for (const auto& [alias, name] : manifest.aliases) text += fmt::format("\n{} is another name of {}", alias, name);
  return text;
}

Json tensor_json(const checkpoint::SavedTensor& tensor) {
  Json json{{"name", tensor.spec.name}, {"dtype", name_of(tensor.spec.dtype)}, {"shape", tensor.spec.shape}};
  json["bytes"] = bytes_of(tensor.spec);
  json["shards"] = shards_of(tensor);
  json["unit"] = tensor.rule.unit;
  json["unit_offset"] = tensor.rule.unit_offset;
  json["shard_numel"] = tensor.rule.shard_numel;
  return json;
}

Json to_json(const std::string& path, const checkpoint::Manifest& manifest) {
  Json json{{"path", path},
            {"step", manifest.step},
            {"ranks", manifest.ranks},
            {"id", manifest.id},
            {"sequence", manifest.sequence},
            {"created", manifest.created},
            {"tensors", Json::array()},
            {"files", Json::array()}};
  for (const auto& tensor : manifest.tensors) json["tensors"].push_back(tensor_json(tensor));
  for (const auto& file : manifest.files)
    json["files"].push_back({{"name", file.name}, {"bytes", file.bytes}, {"regions", file.regions}});
  json["libraries"] = manifest.libraries;
  json["aliases"] = manifest.aliases;
  json["training_state"] = Json::parse(manifest.training_state);
  return json;
}

}  // namespace

ExitCode ckpt_inspect(const std::vector<std::string>& arguments) {
  boost::program_options::options_description options;
  options.add_options()("json", "print JSON");
  boost::program_options::variables_map values;
  const CkptUsage usage{"inspect", "PATH [--json]",
                        "Shows what a checkpoint holds: the tree of modules, tensors, shard files, training state.",
                        "shoal ckpt inspect checkpoints/mnist --json"};
  if (!parse_ckpt_options(usage, options, arguments, values)) return ExitCode::ok;
  const auto path = checkpoint::resolve_checkpoint(path_of(values));
  const checkpoint::Manifest manifest = checkpoint::open_checkpoint(path);
  if (values.count("json")) {
    log::print_result(to_json(path.string(), manifest).dump(2));
    return ExitCode::ok;
  }
  log::print_result(head_text(path.string(), manifest) + "\n\n" + tree_text(manifest) + "\n\n" +
                    tensors_text(manifest) + "\n\n" + files_text(manifest) + "\n\ntraining state\n" +
                    Json::parse(manifest.training_state).dump(2));
  return ExitCode::ok;
}

}  // namespace shoal::apps

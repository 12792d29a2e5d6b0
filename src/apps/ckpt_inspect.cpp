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

std::string tensors_text(const checkpoint::Manifest& manifest) {
  std::vector<std::vector<std::string>> rows{{"tensor", "type", "shape", "elements", "unit + offset"}};
  for (const auto& [spec, rule] : manifest.tensors)
    rows.push_back({spec.name, std::string(name_of(spec.dtype)), shape_text(spec.shape), std::to_string(spec.numel()),
                    cut_text(rule)});
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
  const CkptUsage usage{"inspect", "PATH [--json]", "Shows what a checkpoint holds."};
  if (!parse_ckpt_options(usage, options, arguments, values)) return ExitCode::ok;
  const auto path = checkpoint::resolve_checkpoint(path_of(values));
  const checkpoint::Manifest manifest = checkpoint::open_checkpoint(path);
  if (values.count("json")) {
    log::print_result(to_json(path.string(), manifest).dump(2));
    return ExitCode::ok;
  }
  log::print_result(head_text(path.string(), manifest) + "\n\n" + tensors_text(manifest) + "\n\n" +
                    files_text(manifest) + "\n\ntraining state\n" + Json::parse(manifest.training_state).dump(2));
  return ExitCode::ok;
}

}  // namespace shoal::apps

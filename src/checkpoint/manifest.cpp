#include "checkpoint/manifest.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "checkpoint/file_names.h"
#include "checkpoint/region_table.h"
#include "core/check.h"

namespace shoal::checkpoint {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const SavedTensor& tensor) {
  Json json{{"name", tensor.spec.name}, {"dtype", name_of(tensor.spec.dtype)}, {"shape", tensor.spec.shape}};
  if (!tensor.rule.unit.empty())
    json["rule"] = {
        {"unit", tensor.rule.unit}, {"unit_offset", tensor.rule.unit_offset}, {"shard_numel", tensor.rule.shard_numel}};
  return json;
}

Json to_json(const ShardFile& file) {
  return {{"name", file.name}, {"bytes", file.bytes}, {"regions", file.regions}, {"table_crc32c", file.table_crc}};
}

// The number of elements must be countable in bytes, or everything computed from it would be wrong.
void check_shape(const TensorSpec& spec) {
  std::int64_t room = std::numeric_limits<std::int64_t>::max() / size_of(spec.dtype);
  for (const std::int64_t extent : spec.shape) {
    SHOAL_CHECK(extent >= 0 && (extent == 0 || room / extent > 0), CheckpointError,
                "tensor '{}' has an impossible shape", spec.name);
    if (extent > 0) room /= extent;
  }
}

SavedTensor tensor_from(const Json& json) {
  SavedTensor tensor;
  tensor.spec.name = json.at("name").get<std::string>();
  tensor.spec.dtype = dtype_from_name(json.at("dtype").get<std::string>());
  tensor.spec.shape = json.at("shape").get<std::vector<std::int64_t>>();
  check_shape(tensor.spec);
  static_cast<void>(shard_dataset_path(tensor.spec.name));  // throws where it is no tensor name
  if (json.contains("rule")) {
    const Json& rule = json["rule"];
    tensor.rule = {rule.at("unit").get<std::string>(), rule.at("unit_offset").get<std::int64_t>(),
                   rule.at("shard_numel").get<std::int64_t>()};
  }
  return tensor;
}

// Only names that a save of this checkpoint gives: a manifest must not lead outside of its directory.
ShardFile file_from(const Json& json, const std::string& expected_name) {
  ShardFile file{json.at("name").get<std::string>(), json.at("bytes").get<std::int64_t>(),
                 json.at("regions").get<std::int64_t>(), json.at("table_crc32c").get<std::uint32_t>()};
  SHOAL_CHECK(file.name == expected_name, CheckpointError, "file '{}' stands where '{}' belongs", file.name,
              expected_name);
  SHOAL_CHECK(file.bytes >= 0 && file.regions >= 0, CheckpointError, "file '{}' has a negative size", file.name);
  SHOAL_CHECK(file.regions <= file.bytes / static_cast<std::int64_t>(sizeof(RegionRow)), CheckpointError,
              "file '{}' has {} bytes, too few for a table of {} regions", file.name, file.bytes, file.regions);
  return file;
}

// As are those of all tensors together.
void check_total(const Manifest& manifest) {
  std::int64_t room = std::numeric_limits<std::int64_t>::max();
  for (const SavedTensor& tensor : manifest.tensors) {
    const std::int64_t bytes = tensor.spec.numel() * size_of(tensor.spec.dtype);
    SHOAL_CHECK(bytes <= room, CheckpointError, "the tensors up to '{}' have an impossible size", tensor.spec.name);
    room -= bytes;
  }
}

// Names are distinct, and every alias is one of a tensor that is there.
void check_names(const Manifest& manifest) {
  std::set<std::string> names;
  for (const SavedTensor& tensor : manifest.tensors)
    SHOAL_CHECK(names.insert(tensor.spec.name).second, CheckpointError, "tensor '{}' is listed twice",
                tensor.spec.name);
  for (const auto& [alias, name] : manifest.aliases)
    SHOAL_CHECK(is_model_tensor(alias) && is_model_tensor(name) && names.contains(name) && names.insert(alias).second,
                CheckpointError, "'{}' cannot be another name of '{}'", alias, name);
}

void check_format(const Json& json) {
  SHOAL_CHECK(json.is_object() && json.value("format", "") == kFormatName, CheckpointError,
              "it is not a Shoal checkpoint's manifest");
  const auto version = json.at("version").get<std::int64_t>();
  SHOAL_CHECK(version <= kFormatVersion, CheckpointError,
              "it has format version {}, written by a newer Shoal; this one reads up to version {}: update Shoal",
              version, kFormatVersion);
}

Manifest from_json(const Json& json) {
  check_format(json);
  Manifest manifest;
  manifest.id = json.at("checkpoint").get<std::string>();
  SHOAL_CHECK(is_checkpoint_id(manifest.id), CheckpointError, "'{}' is no checkpoint id", manifest.id);
  manifest.sequence = json.at("sequence").get<std::int64_t>();
  manifest.step = json.at("step").get<std::int64_t>();
  manifest.ranks = json.at("ranks").get<int>();
  manifest.created = json.at("created").get<std::string>();
  manifest.libraries = json.at("libraries").get<std::map<std::string, std::string>>();
  for (const Json& tensor : json.at("tensors")) manifest.tensors.push_back(tensor_from(tensor));
  check_total(manifest);
  manifest.aliases = json.at("aliases").get<std::vector<std::pair<std::string, std::string>>>();
  check_names(manifest);
  const std::size_t files = json.at("files").size(), ranks = static_cast<std::size_t>(manifest.ranks);
  SHOAL_CHECK(manifest.ranks > 0 && files > 0 && files <= ranks, CheckpointError, "{} files for {} ranks", files,
              manifest.ranks);
  for (const Json& file : json.at("files"))
    manifest.files.push_back(file_from(
        file, shard_file_name(manifest.id, static_cast<int>(manifest.files.size()), /*one_a_rank=*/files == ranks)));
  manifest.training_state = json.at("training_state").dump();
  return manifest;
}

Json training_state_json(const std::string& text) {
  Json state = Json::parse(text, nullptr, false);
  SHOAL_CHECK(state.is_object(), InternalError, "the training state to save is no JSON object");
  return state;
}

// What is nested deeper than any manifest would exhaust the stack when it is written again.
Json parse_json(const std::string& text) {
  static constexpr int kDeepest = 100;
  return Json::parse(text, [](int depth, Json::parse_event_t, Json&) {
    SHOAL_CHECK(depth <= kDeepest, CheckpointError, "it is nested more than {} deep", kDeepest);
    return true;
  });
}

}  // namespace

std::int64_t Manifest::tensor_bytes() const {
  std::int64_t bytes = 0;
  for (const SavedTensor& tensor : tensors) bytes += tensor.spec.numel() * size_of(tensor.spec.dtype);
  return bytes;
}

std::int64_t Manifest::file_bytes() const {
  std::int64_t bytes = 0;
  for (const ShardFile& file : files) bytes += file.bytes;
  return bytes;
}

std::string format_manifest(const Manifest& manifest) {
  Json json{{"format", kFormatName},       {"version", kFormatVersion},
            {"checkpoint", manifest.id},   {"sequence", manifest.sequence},
            {"step", manifest.step},       {"ranks", manifest.ranks},
            {"created", manifest.created}, {"libraries", manifest.libraries},
            {"tensors", Json::array()},    {"aliases", Json::array()},
            {"files", Json::array()},      {"training_state", training_state_json(manifest.training_state)}};
  for (const SavedTensor& tensor : manifest.tensors) json["tensors"].push_back(to_json(tensor));
  for (const auto& [alias, name] : manifest.aliases) json["aliases"].push_back(Json::array({alias, name}));
  for (const ShardFile& file : manifest.files) json["files"].push_back(to_json(file));
  return json.dump(1) + "\n";
}

Manifest parse_manifest(const std::string& text, const std::string& where) {
  try {
    return from_json(parse_json(text));
  } catch (const nlohmann::json::exception& error) {
    throw CheckpointError("{} is damaged: {}", where, error.what());
  } catch (const Error& error) {
    throw CheckpointError("{}: {}", where, error.what());
  }
}

}  // namespace shoal::checkpoint

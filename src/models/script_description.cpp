#include "models/script_description.h"

#include <caffe2/serialize/inline_container.h>

#include <nlohmann/json.hpp>

#include "core/check.h"

namespace shoal::models {
namespace {

using caffe2::serialize::PyTorchStreamReader;
using nlohmann::json;

const char* const kRecord = "extra/shoal.json";

std::unique_ptr<PyTorchStreamReader> open_archive(const std::filesystem::path& path) {
  SHOAL_CHECK(std::filesystem::is_regular_file(path), OptionError, "--model-script {}: there is no such file",
              path.string());
  std::unique_ptr<PyTorchStreamReader> archive;
  try {
    archive = std::make_unique<PyTorchStreamReader>(path.string());
  } catch (const c10::Error&) {
    throw OptionError("--model-script {}: not a TorchScript file; make one with scripts/export_model.py",
                      path.string());
  }
  SHOAL_CHECK(archive->hasRecord("constants.pkl"), OptionError,
              "--model-script {}: holds weights without the model's code, as torch.save() writes them; make a "
              "TorchScript file with scripts/export_model.py",
              path.string());
  return archive;
}

json parse(const std::filesystem::path& path, const std::string& text) {
  const json about = json::parse(text, nullptr, /*allow_exceptions=*/false);
  SHOAL_CHECK(about.is_object(), OptionError, "--model-script {}: its shoal.json is not a JSON object", path.string());
  const json format = about.value("format", json(kScriptFormat));
  SHOAL_CHECK(format.is_number_integer() && format.get<int>() >= 1, OptionError,
              "--model-script {}: its shoal.json has a 'format' that is no version number", path.string());
  SHOAL_CHECK(format.get<int>() <= kScriptFormat, OptionError,
              "--model-script {}: format {} is newer than this program, which reads up to {}; install a newer Shoal or "
              "export the model with this one's export_model.py",
              path.string(), format.get<int>(), kScriptFormat);
  return about;
}

TrainingDefaults defaults_of(const json& given) {
  return {.optimizer = given.value("optimizer", "adamw"),
          .learning_rate = given.value("learning_rate", 3e-4),
          .schedule = given.value("schedule", "constant"),
          .wrap = given.value("wrap", "none"),
          .epochs = given.value("epochs", std::int64_t{1}),
          .batch_size = given.value("batch_size", std::int64_t{8})};
}

// What the description leaves out keeps its default; a value of a wrong type is nlohmann's exception.
ScriptDescription fields_of(const std::filesystem::path& path, const json& about) {
  return {.path = path,
          .name = about.value("name", path.stem().string()),
          .data = about.value("data", ""),
          .module = about.value("module", ""),
          .vocab_size = about.value("vocab_size", std::int64_t{0}),
          .max_positions = about.value("max_positions", std::int64_t{0}),
          .mask_token = about.value("mask_token", std::int64_t{-1}),
          .dtypes = about.value("dtypes", std::vector<std::string>{}),
          .non_persistent_buffers = about.value("non_persistent_buffers", std::set<std::string>{}),
          .defaults = defaults_of(about.value("defaults", json::object()))};
}

}  // namespace

ScriptDescription read_script_description(const std::filesystem::path& path) {
  const auto archive = open_archive(path);
  json about = json::object();
  if (archive->hasRecord(kRecord)) {
    const auto [bytes, size] = archive->getRecord(kRecord);
    about = parse(path, std::string(static_cast<const char*>(bytes.get()), size));
  }
  ScriptDescription description;
  try {
    description = fields_of(path, about);
  } catch (const json::exception& error) {
    throw OptionError("--model-script {}: its shoal.json is not as docs/from_python.md describes it: {}", path.string(),
                      error.what());
  }
  const std::string& data = description.data;
  SHOAL_CHECK(data == "tokens" || data == "masked_tokens" || data == "mnist", OptionError,
              "--model-script {}: does not say what data it trains on{}; save it with torch.jit.save(module, path, "
              "_extra_files={{'shoal.json': '{{\"format\": 1, \"data\": \"tokens\"}}'}}), or masked_tokens or mnist",
              path.string(), data.empty() ? "" : fmt::format(" ('{}' is none that Shoal knows)", data));
  return description;
}

}  // namespace shoal::models

// The models that --model knows, each with the data it takes and the options it is trained with unless told otherwise.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "models/model.h"

namespace shoal::models {

struct TrainingDefaults {
  std::string optimizer;
  double learning_rate;
  std::string schedule;
  std::string wrap;
  std::int64_t epochs;
  std::int64_t batch_size;  // samples of a rank's micro-step
};

struct ModelEntry {
  std::string name;
  std::string summary;
  TrainingDefaults defaults;
  // Initial weights depend on `seed` alone.
  std::unique_ptr<Model> (*make)(std::uint64_t seed);
  std::unique_ptr<data::Dataset> (*open_data)(const std::filesystem::path& path, data::Split split);
};

const std::vector<ModelEntry>& model_entries();
// Throws OptionError with the list of names where `name` is none of them.
const ModelEntry& find_model(const std::string& name);

}  // namespace shoal::models

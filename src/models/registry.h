// The models that --model knows, each with the data it takes and the options it is trained with unless told otherwise.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/data_request.h"
#include "data/dataset.h"
#include "models/model.h"
#include "models/model_options.h"

namespace shoal::models {

struct TrainingDefaults {
  std::string optimizer;
  double learning_rate;
  std::string schedule;
  std::string wrap;
  std::int64_t epochs;
  std::int64_t batch_size;  // samples of a rank's micro-step
};

enum class Metric { accuracy, perplexity };  // what a validation prints

struct ModelEntry {
  std::string name;
  std::string summary;
  TrainingDefaults defaults;
  // The shape behind the name, which the user's options are laid over; zero where the model has no such size.
  ModelOptions shape = {};
  Metric metric = Metric::accuracy;
  // `options` are complete. Initial weights depend on options.seed alone. OptionError for a shape that cannot be.
  std::function<std::unique_ptr<Model>(const ModelOptions& options)> make;
  // Null where there are no data for `split`, which only Split::test may say.
  std::function<std::unique_ptr<data::Dataset>(const data::DataRequest& request, data::Split split)> open_data;
  // A batch of `samples` samples without values (data/batch_shapes.h), for plans. Null: not known without data.
  std::function<data::Batch(std::int64_t samples, const data::DataRequest& request)> batch_shapes = {};
};

// The built-in ones, and those that plug-ins and scripts have added.
const std::vector<ModelEntry>& model_entries();
void add_model(ModelEntry entry);  // OptionError where the name is taken
// Throws OptionError with the list of names where `name` is none of them.
const ModelEntry& find_model(const std::string& name);
// What the user gave (0, empty or negative: not given) over the entry's shape. OptionError for an option that this
// model does not have.
ModelOptions complete(const ModelEntry& entry, const ModelOptions& given);

}  // namespace shoal::models

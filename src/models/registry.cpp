#include "models/registry.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/check.h"
#include "core/nearest.h"
#include "models/builtin.h"

namespace shoal::models {
namespace {

std::vector<ModelEntry>& entries() {
  static std::vector<ModelEntry> all = builtin_models();
  return all;
}

// A size that the user may set where the model has one.
struct Size {
  const char* option;
  std::int64_t ModelOptions::*member;
};
constexpr std::array<Size, 7> kSizes{{{"layers", &ModelOptions::layers},
                                      {"heads", &ModelOptions::heads},
                                      {"kv-heads", &ModelOptions::kv_heads},
                                      {"hidden-size", &ModelOptions::hidden_size},
                                      {"intermediate-size", &ModelOptions::intermediate_size},
                                      {"vocab-size", &ModelOptions::vocab_size},
                                      {"max-positions", &ModelOptions::max_positions}}};

void check_has(const ModelEntry& entry, const char* option, bool has, bool wanted) {
  SHOAL_CHECK(has || !wanted, OptionError, "--{}: model {} has no such thing", option, entry.name);
}

}  // namespace

const std::vector<ModelEntry>& model_entries() { return entries(); }

void add_model(ModelEntry entry) {
  const bool taken =
      std::any_of(entries().begin(), entries().end(), [&](const auto& e) { return e.name == entry.name; });
  SHOAL_CHECK(!taken, OptionError, "a model named '{}' is there already: the plug-in must name its own otherwise",
              entry.name);
  entries().push_back(std::move(entry));
}

const ModelEntry& find_model(const std::string& name) {
  std::vector<std::string> known;
  for (const ModelEntry& entry : model_entries()) {
    if (entry.name == name) return entry;
    known.push_back(entry.name);
  }
  const std::string all = fmt::format("; the models are: {}", fmt::join(known, ", "));
  throw OptionError("--model: there is no '{}'{}", name, did_you_mean(name, known, all));
}

ModelOptions complete(const ModelEntry& entry, const ModelOptions& given) {
  ModelOptions options = entry.shape;
  options.seed = given.seed;
  for (const Size& size : kSizes) {
    check_has(entry, size.option, options.*size.member > 0, given.*size.member > 0);
    if (given.*size.member > 0) options.*size.member = given.*size.member;
  }
  // Another width keeps the shape's proportions, as in transformers, where GPT-2's MLP is 4 times as wide by default.
  if (given.intermediate_size == 0 && entry.shape.hidden_size > 0)
    options.intermediate_size = entry.shape.intermediate_size * options.hidden_size / entry.shape.hidden_size;
  check_has(entry, "dropout", options.dropout >= 0, given.dropout >= 0);
  if (given.dropout >= 0) options.dropout = given.dropout;
  check_has(entry, "rope-theta", options.rope_theta > 0, given.rope_theta > 0);
  if (given.rope_theta > 0) options.rope_theta = given.rope_theta;
  check_has(entry, "rope-scaling", options.rope_scaling > 0, given.rope_scaling > 0);
  if (given.rope_scaling > 0) options.rope_scaling = given.rope_scaling;
  check_has(entry, "untied-head", options.vocab_size > 0, given.untied_head);
  options.untied_head = options.untied_head || given.untied_head;
  return options;
}

}  // namespace shoal::models

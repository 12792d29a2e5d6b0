#include "checkpoint/diff.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/ckpt_options.h"
#include "apps/ckpt_text.h"
#include "apps/ckpt_verbs.h"
#include "checkpoint/catalog.h"
#include "core/logging.h"

namespace shoal::apps {
namespace {

using checkpoint::TensorDiff;
using checkpoint::TensorState;
using Json = nlohmann::ordered_json;

// As diff(1) says it.
constexpr auto kDifferent = static_cast<ExitCode>(1);

std::string spec_text(const TensorSpec& spec) {
  return fmt::format("{} [{}]", name_of(spec.dtype), shape_text(spec.shape));
}

std::string what_text(const TensorDiff& tensor) {
  switch (tensor.state) {
    case TensorState::equal: return spec_text(tensor.a);
    case TensorState::different:
      return fmt::format("{} of {} elements, the first is {}", tensor.elements.count, tensor.a.numel(),
                         tensor.elements.first);
    case TensorState::other_shape:
    case TensorState::other_dtype: return fmt::format("{} and {}", spec_text(tensor.a), spec_text(tensor.b));
    case TensorState::only_in_a: return spec_text(tensor.a);
    case TensorState::only_in_b: return spec_text(tensor.b);
  }
  return "";
}

std::vector<std::string> row_of(const TensorDiff& tensor) {
  const bool measured = tensor.state == TensorState::different;
  return {tensor.name, name_of(tensor.state), measured ? fmt::format("{:.6g}", tensor.elements.max_absolute) : "-",
          measured ? fmt::format("{:.6g}", tensor.elements.max_relative) : "-", what_text(tensor)};
}

void print_text(const checkpoint::DiffReport& report, bool all) {
  std::vector<std::vector<std::string>> rows{{"tensor", "state", "max abs", "max rel", "what"}};
  for (const TensorDiff& tensor : report.tensors)
    if (all || tensor.state != TensorState::equal) rows.push_back(row_of(tensor));
  log::result("A: {}, step {}\nB: {}, step {}", report.a.string(), report.step_a, report.b.string(), report.step_b);
  if (rows.size() > 1) log::print_result(table_text(rows));
  log::result("training state: {}", report.same_training_state ? "equal" : "different");
  log::result("{}: {} of {} tensors are equal ({} read in {:.2f} s)", report.same_tensors() ? "equal" : "different",
              report.count(TensorState::equal), report.tensors.size(), human_bytes(report.bytes), report.seconds);
}

// JSON has no infinity.
Json number_json(double value) { return std::isfinite(value) ? Json(value) : Json("inf"); }

Json spec_json(const TensorSpec& spec) { return {{"dtype", name_of(spec.dtype)}, {"shape", spec.shape}}; }

Json to_json(const TensorDiff& tensor) {
  Json json{{"name", tensor.name}, {"state", name_of(tensor.state)}};
  if (tensor.state != TensorState::only_in_b) json["a"] = spec_json(tensor.a);
  if (tensor.state != TensorState::only_in_a) json["b"] = spec_json(tensor.b);
  if (tensor.state != TensorState::different && tensor.state != TensorState::equal) return json;
  json["different_elements"] = tensor.elements.count;
  if (tensor.elements.count > 0) json["first_different"] = tensor.elements.first;
  json["max_abs"] = number_json(tensor.elements.max_absolute);
  json["max_rel"] = number_json(tensor.elements.max_relative);
  return json;
}

void print_json(const checkpoint::DiffReport& report) {
  Json json{{"equal", report.same_tensors()},
            {"a", {{"path", report.a.string()}, {"step", report.step_a}}},
            {"b", {{"path", report.b.string()}, {"step", report.step_b}}},
            {"training_state_equal", report.same_training_state},
            {"tensors", Json::array()}};
  for (const TensorDiff& tensor : report.tensors) json["tensors"].push_back(to_json(tensor));
  log::print_result(json.dump(2));
}

}  // namespace

ExitCode ckpt_diff(const std::vector<std::string>& arguments) {
  boost::program_options::options_description options;
  options.add_options()("all", "show equal tensors as well")("json", "print JSON, with all tensors");
  boost::program_options::variables_map values;
  const CkptUsage usage{
      "diff", "A B [--all] [--json]",
      "Compares the tensors of two checkpoints, which may be of any numbers of ranks, and checks them meanwhile.\nExit "
      "code 0: all are equal, bit by bit; 1: some are not; 4: a checkpoint is damaged. A different training\nstate is "
      "told, but makes no difference to that. max rel is |a - b| / max(|a|, |b|).",
      "shoal ckpt diff checkpoints/run1/step_00000500 checkpoints/run2/step_00000500", 2};
  if (!parse_ckpt_options(usage, options, arguments, values)) return ExitCode::ok;
  const std::vector<std::string> paths = paths_of(values);
  const checkpoint::DiffReport report =
      checkpoint::diff(checkpoint::resolve_checkpoint(paths[0]), checkpoint::resolve_checkpoint(paths[1]));
  values.count("json") ? print_json(report) : print_text(report, values.count("all") > 0);
  return report.same_tensors() ? ExitCode::ok : kDifferent;
}

}  // namespace shoal::apps

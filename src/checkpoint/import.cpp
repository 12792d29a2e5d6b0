#include "checkpoint/import.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "checkpoint/convert_elements.h"
#include "checkpoint/file_names.h"
#include "checkpoint/foreign_names.h"
#include "checkpoint/foreign_selection.h"
#include "checkpoint/foreign_state.h"
#include "checkpoint/manifest_origin.h"
#include "checkpoint/new_directory.h"
#include "checkpoint/reshard_targets.h"
#include "checkpoint/weights_names.h"
#include "core/check.h"
#include "core/timer.h"

namespace shoal::checkpoint {
namespace fs = std::filesystem;
namespace {

using Use = std::function<void(std::int64_t begin, std::int64_t count, const std::byte* elements)>;

void for_each_piece(const WeightsContents& contents, std::size_t tensor, const Use& use) {
  const TensorSpec& spec = contents.tensors[tensor];
  const std::int64_t most = kChunkBytes / size_of(spec.dtype), numel = spec.numel();
  std::vector<std::byte> buffer(static_cast<std::size_t>(std::min(most, numel) * size_of(spec.dtype)));
  for (std::int64_t begin = 0; begin < numel; begin += most) {
    const std::int64_t count = std::min(most, numel - begin);
    contents.read(tensor, begin, count, buffer.data());
    use(begin, count, buffer.data());
  }
}

bool equal(const WeightsContents& contents, std::size_t one, std::size_t other) {
  bool same = true;
  std::vector<std::byte> twin;
  for_each_piece(contents, one, [&](std::int64_t begin, std::int64_t count, const std::byte* elements) {
    if (!same) return;
    twin.resize(static_cast<std::size_t>(count * size_of(contents.tensors[one].dtype)));
    contents.read(other, begin, count, twin.data());
    same = std::memcmp(elements, twin.data(), twin.size()) == 0;
  });
  return same;
}

// An output layer that the source has beside the embedding it is tied to becomes another name of it. A model whose
// head is its own keeps both.
void join_tied(ForeignState& state) {
  const std::vector<TensorSpec>& tensors = state.contents.tensors;
  std::vector<std::size_t> kept;
  std::map<std::size_t, std::size_t> tied;
  for (std::size_t head = 0; head < tensors.size(); ++head)
    for (std::size_t i = 0; is_model_tensor(tensors[head].name) && i < tensors.size() && !tied.contains(head); ++i)
      if (is_model_tensor(tensors[i].name) && i != head && tensors[i].shape == tensors[head].shape &&
          tensors[i].dtype == tensors[head].dtype &&
          is_tied_head(parameter_name(tensors[head].name), parameter_name(tensors[i].name)) &&
          equal(state.contents, head, i))
        tied[head] = i;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (!tied.contains(i)) kept.push_back(i);
  for (const auto& [head, embedding] : tied) {
    state.aliases.emplace_back(tensors[head].name, tensors[embedding].name);
    state.contents.notes.push_back(fmt::format("'{}' is tied to '{}'", parameter_name(tensors[head].name),
                                               parameter_name(tensors[embedding].name)));
  }
  keep_tensors(state, kept);
}

// Buffers of old files that are no state, and the optimizer where it is not wanted.
void leave_out(ForeignState& state, bool weights_only) {
  std::vector<std::size_t> kept;
  std::vector<std::string> buffers;
  for (std::size_t i = 0; i < state.contents.tensors.size(); ++i) {
    TensorSpec spec = state.contents.tensors[i];
    const bool model = is_model_tensor(spec.name);
    spec.name = model ? parameter_name(spec.name) : spec.name;
    if (model && is_known_buffer(spec))
      buffers.push_back(spec.name);
    else if (model || !weights_only)
      kept.push_back(i);
  }
  if (!buffers.empty())
    state.contents.notes.push_back(fmt::format("{} buffers left out, which are no state: {}{}", buffers.size(),
                                               buffers.front(), buffers.size() > 1 ? ", …" : ""));
  keep_tensors(state, kept);
  std::erase_if(state.aliases, [&](const auto& alias) {
    return std::none_of(state.contents.tensors.begin(), state.contents.tensors.end(),
                        [&](const TensorSpec& spec) { return spec.name == alias.second; });
  });
}

void check_all_is_known(const ForeignState& state) {
  std::vector<std::string> others;
  for (const formats::OtherEntry& other : state.contents.others)
    others.push_back(fmt::format("'{}' {}", other.name, other.reason));
  if (others.size() > 5) others.resize(5);
  SHOAL_CHECK(others.empty(), CheckpointError,
              "{} has {} parts that a checkpoint cannot hold: {}; take them out, or say "
              "which part is the model (--key)",
              state.path.string(), state.contents.others.size(), fmt::join(others, "; "));
  SHOAL_CHECK(!state.contents.tensors.empty(), CheckpointError, "{} holds no tensors", state.path.string());
}

// Not empty, without zero bytes, and UTF-8.
bool is_tensor_name(const std::string& name) {
  try {
    return name.find('\0') == std::string::npos && !shard_dataset_path(name).empty() &&
           !nlohmann::json(name).dump().empty();
  } catch (const Error&) {
    return false;
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

// What a manifest asks of names, before anything is written.
void check_names(const ForeignState& state) {
  std::set<std::string> names;
  const auto check = [&](const std::string& name, bool proper, const char* what) {
    SHOAL_CHECK(proper, CheckpointError, "{}: {} {}: rename it in the source, or with --rename", state.path.string(),
                nlohmann::json(name).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace), what);
  };
  for (const TensorSpec& spec : state.contents.tensors) {
    check(spec.name, is_tensor_name(spec.name), "is no name of a tensor, which is UTF-8 without zero bytes");
    check(spec.name, names.insert(spec.name).second, "is the name of two tensors");
  }
  for (const auto& [alias, name] : state.aliases)
    check(alias, names.contains(name) && names.insert(alias).second, "cannot be another name of a tensor");
}

// One unit of the parameters and one of each state of the optimizer, so that each rank has equal parts of all. What is
// not floating is a buffer, which is not cut.
std::vector<SavedTensor> tensors_of(const ForeignState& state, const std::optional<DType>& dtype) {
  std::map<std::string, std::int64_t> ends;
  std::vector<SavedTensor> tensors;
  for (const TensorSpec& spec : state.contents.tensors) {
    SavedTensor tensor{spec, {}};
    if (is_floating(spec.dtype)) {
      tensor.spec.dtype = dtype.value_or(spec.dtype);
      const std::string unit = is_model_tensor(spec.name)
                                   ? std::string(kModelPrefix)
                                   : spec.name.substr(0, spec.name.find('/', kOptimizerPrefix.size()) + 1);
      tensor.rule = {unit, ends[unit], 0};
      ends[unit] += spec.numel();
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

// What `shoal train --resume` wants to know: training_state.cpp reads it.
std::string training_state_of(const ForeignState& state, std::int64_t step) {
  nlohmann::ordered_json json{
      {"version", 1}, {"step", step}, {"optimizer_steps", step}, {"optimizer", state.optimizer}};
  json["imported"] = {{"format", state.contents.format},
                      {"source", state.path.string()},
                      {"with_optimizer", state.has_optimizer()},
                      {"settings", state.settings}};
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void copy_tensor(const WeightsContents& contents, std::size_t tensor, DType to, ReshardTargets& targets,
                 const std::function<void(std::int64_t bytes)>& written) {
  const DType from = contents.tensors[tensor].dtype;
  std::vector<std::byte> converted;
  for_each_piece(contents, tensor, [&](std::int64_t begin, std::int64_t count, const std::byte* elements) {
    const auto bytes = static_cast<std::size_t>(count * size_of(to));
    if (from != to) {
      converted.resize(bytes);
      convert_elements(elements, from, converted.data(), to, count);
      elements = converted.data();
    }
    targets.write(tensor, begin * size_of(to), elements, bytes);
    written(static_cast<std::int64_t>(bytes));
  });
}

ForeignState open_source(const ImportOptions& options) {
  ForeignState state = open_foreign(options.source, {options.key, options.weights_only});
  choose_tensors(state, options.select, options.rename);
  check_all_is_known(state);
  check_names(state);
  leave_out(state, options.weights_only);
  join_tied(state);
  return state;
}

// The manifest without what the attempt and its files give.
Manifest manifest_of(const ForeignState& state, const ImportOptions& options) {
  Manifest manifest;
  manifest.step = options.step.value_or(state.has_optimizer() ? state.step.value_or(0) : 0);
  manifest.ranks = options.ranks;
  manifest.tensors = cut_for_ranks(tensors_of(state, options.dtype), options.ranks);
  manifest.aliases = state.aliases;
  manifest.training_state = training_state_of(state, manifest.step);
  note_origin(manifest);
  return manifest;
}

ImportMemory memory_of(const Manifest& manifest, const ImportOptions& options) {
  // Names and JSON of a tensor, and a rank's file, as objects; where a region goes, of which a rank has at most one
  // more than tensors of a unit.
  constexpr std::int64_t kBytesPerTensor = 3 << 10, kBytesPerRank = 4 << 10;
  constexpr std::int64_t kCopies = 3;  // what was read and, at most twice as large, converted
  ImportMemory memory;
  memory.tables = static_cast<std::int64_t>(manifest.tensors.size()) * kBytesPerTensor + manifest.ranks * kBytesPerRank;
  const std::int64_t allowed = (options.memory - memory.tables) / kChunkBytes;
  SHOAL_CHECK(allowed >= kCopies, OptionError, "--memory {} is too little: this import needs {} bytes", options.memory,
              memory.tables + kCopies * kChunkBytes);
  memory.workers = static_cast<int>(std::min<std::int64_t>(options.workers, allowed));
  memory.buffers = std::max<std::int64_t>(kCopies, memory.workers) * kChunkBytes;
  return memory;
}

ImportReport report_of(const ForeignState& state, const Manifest& manifest, const ImportOptions& options) {
  ImportReport report;
  report.format = state.contents.format;
  report.step = manifest.step;
  report.notes = state.contents.notes;
  report.bytes = manifest.tensor_bytes();
  report.tensors = manifest.tensors;
  report.aliases = manifest.aliases;
  report.memory = memory_of(manifest, options);
  for (const SavedTensor& tensor : manifest.tensors)
    ++(is_model_tensor(tensor.spec.name) ? report.model_tensors : report.optimizer_tensors);
  return report;
}

}  // namespace

ImportReport import_checkpoint(const ImportOptions& options) {
  const Timer timer;
  SHOAL_CHECK(options.ranks >= 1, OptionError, "--ranks {} is no number of ranks; give 1 or more", options.ranks);
  check_new_directory(options.output);
  const ForeignState state = open_source(options);
  const Manifest manifest = manifest_of(state, options);
  ImportReport report = report_of(state, manifest, options);
  if (options.dry_run) return report;
  const auto tell = [&](bool checking, std::int64_t bytes) {
    if (options.progress) options.progress(checking, bytes, report.bytes);
  };
  std::int64_t copied = 0;
  const auto fill = [&](ReshardTargets& targets) {
    for (std::size_t i = 0; i < manifest.tensors.size(); ++i)
      copy_tensor(state.contents, i, manifest.tensors[i].spec.dtype, targets,
                  [&](std::int64_t bytes) { tell(false, copied += bytes); });
  };
  const NewCheckpoint made = write_new_checkpoint(options.output, manifest, report.memory.workers, fill,
                                                  [&](std::int64_t bytes) { tell(true, bytes); });
  report.path = made.path;
  report.verify_seconds = made.verify_seconds;
  report.seconds = timer.seconds();
  return report;
}

}  // namespace shoal::checkpoint

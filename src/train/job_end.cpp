#include "train/job_end.h"

#include <nlohmann/json.hpp>
#include <system_error>

#include "checkpoint/catalog.h"
#include "core/error.h"
#include "core/file_io.h"
#include "core/logging.h"
#include "launch/deadline.h"
#include "train/training_state.h"

namespace shoal::train {
namespace {

using Json = nlohmann::ordered_json;

bool is_there(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

// Nothing where the file cannot be read: then the run is looked at again, which costs time but loses nothing.
std::optional<DoneMark> read_done(const launch::RunDirectory& directory) {
  if (!is_there(directory.done())) return std::nullopt;
  const Json json = Json::parse(read_text_file(directory.done()), nullptr, false);
  try {
    return DoneMark{json.at("attempt"), json.at("step"), json.at("epoch")};
  } catch (const Json::exception& error) {
    log::warning("{} is left out of account: {}", directory.done().string(), error.what());
    return std::nullopt;
  }
}

// What the newest checkpoint says, which is what a new attempt would go on from.
std::optional<Progress> newest_progress(const TrainOptions& options) {
  const auto entries = checkpoint::list_checkpoints(options.checkpoint.directory);
  if (entries.empty()) return std::nullopt;
  std::string state;
  try {
    state = checkpoint::read_manifest(entries.front().path).training_state;
  } catch (const CheckpointError&) {
    return std::nullopt;  // whoever restores is told
  }
  const std::string where = entries.front().path.string();
  check_same_run(state, where, options);
  return parse_progress(state, where);
}

bool reaches(const RunOptions& run, std::int64_t step, std::int64_t epoch) {
  return epoch >= run.epochs || (run.max_steps > 0 && step >= run.max_steps);
}

}  // namespace

void write_done(const launch::RunDirectory& directory, const DoneMark& mark) {
  const Json json{{"attempt", mark.attempt}, {"step", mark.step}, {"epoch", mark.epoch}, {"time", launch::unix_now()}};
  replace_text_file(directory.done(), json.dump(2) + "\n");
}

bool run_is_done(const TrainOptions& options, const launch::RunDirectory& directory) {
  if (options.checkpoint.resume != "auto") return false;
  const std::optional<DoneMark> mark = read_done(directory);
  if (!mark || !reaches(options.run, mark->step, mark->epoch)) return false;
  if (writes_checkpoints(options)) {
    const std::optional<Progress> progress = newest_progress(options);
    if (!progress || !reaches(options.run, progress->step, progress->position.epoch)) return false;
  }
  if (writes_output(options) && !is_there(options.checkpoint.output)) return false;
  log::result(
      "nothing left to train: attempt {} came to the end after step {} ({}); raise --epochs or --max-steps to go on",
      mark->attempt, mark->step, directory.done().string());
  return true;
}

}  // namespace shoal::train

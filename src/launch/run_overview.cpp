#include "launch/run_overview.h"

#include <algorithm>
#include <system_error>

#include "core/check.h"
#include "core/file_io.h"
#include "core/logging.h"

namespace shoal::launch {
namespace fs = std::filesystem;
namespace {

constexpr double kPatience = 120, kPatienceInSteps = 10;

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

bool is_run_directory(const RunDirectory& run) { return is_there(run.status()) || !run.attempts().empty(); }

RunDirectory find(const fs::path& path) {
  for (const RunDirectory& run : {RunDirectory(path), RunDirectory(path / "run")})
    if (is_run_directory(run)) return run;
  throw IoError(
      "{} is no run directory: there is neither a status.json nor a record of an attempt, nor in its folder run",
      path.string());
}

// Nothing where there is no such file; why it cannot be read goes to `left_out`.
template <typename Record>
std::optional<Record> read(const fs::path& path, Record (*parse)(const std::string&, const std::string&),
                           std::vector<std::string>& left_out) {
  if (!is_there(path)) return std::nullopt;
  try {
    return parse(read_text_file(path), path.string());
  } catch (const NewerVersionError&) {
    throw;
  } catch (const Error& error) {
    left_out.emplace_back(error.what());
    return std::nullopt;
  }
}

const FailureRecord* failure_of(const RunOverview& run, int attempt) {
  const auto found = std::find_if(run.failures.begin(), run.failures.end(),
                                  [&](const FailureRecord& failure) { return failure.attempt == attempt; });
  return found == run.failures.end() ? nullptr : &*found;
}

// An attempt that could not write its own end: rank 0 was killed, with or without a rank that could tell.
void judge_running(RunOverview& run, int attempt, double updated, double seconds_per_step,
                   const OverviewQuestion& question) {
  run.state = text_of(RunState::running);
  if (const FailureRecord* failure = failure_of(run, attempt)) {
    run.state = text_of(RunState::failed);
    run.why = failure->reason;
    return;
  }
  const double silence = question.now - updated;
  const double patience = question.stale_after.value_or(std::max(kPatience, kPatienceInSteps * seconds_per_step));
  if (silence <= patience) return;
  run.state = "stale";
  run.why = fmt::format("no word for {:.0f} s: killed, stuck, or on its way out of the queue again", silence);
}

void judge(RunOverview& run, const OverviewQuestion& question) {
  const AttemptRecord* last = run.attempts.empty() ? nullptr : &run.attempts.back();
  if (run.status && (last == nullptr || run.status->attempt >= last->attempt)) {
    const RunStatus& status = *run.status;
    if (status.state == RunState::running) {
      judge_running(run, status.attempt, status.updated, status.seconds_per_step, question);
      if (run.state == text_of(RunState::running) && status.seconds_per_step > 0 && status.total_steps > status.step)
        run.seconds_left = static_cast<double>(status.total_steps - status.step) * status.seconds_per_step;
      return;
    }
    run.state = text_of(status.state);
    if (status.state != RunState::finished) run.why = status.phase;
  } else if (last->state == RunState::running) {
    judge_running(run, last->attempt, last->started, 0, question);
  } else {
    run.state = text_of(last->state);
    run.why = last->reason;
  }
  if (last != nullptr && last->requeued && run.state == text_of(RunState::stopped))
    run.why += (run.why.empty() ? "" : "; ") + std::string("put back into Slurm's queue");
}

}  // namespace

RunOverview look_at_run(const fs::path& path, const OverviewQuestion& question) {
  const RunDirectory directory = find(path);
  RunOverview run;
  run.directory = directory.path();
  std::vector<std::string> left_out;
  run.status = read(directory.status(), parse_status, left_out);
  for (const int attempt : directory.attempts()) {
    if (auto record = read(directory.attempt(attempt), parse_attempt, left_out))
      run.attempts.push_back(*std::move(record));
    if (auto failure = read(directory.first_failure(attempt), parse_failure, left_out))
      run.failures.push_back(*failure);
  }
  SHOAL_CHECK(run.status || !run.attempts.empty(), IoError, "{}: none of its records can be read ({})",
              directory.path().string(), left_out.empty() ? "they are gone" : left_out.front());
  for (const std::string& reason : left_out) log::warning("left out: {}", reason);
  judge(run, question);
  return run;
}

}  // namespace shoal::launch

#include "launch/deadline.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <sstream>
#include <vector>

#include "core/error.h"
#include "core/logging.h"
#include "launch/slurm_time.h"

namespace shoal::launch {
namespace {

constexpr std::chrono::seconds kPatience{10};

double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Set before main(), so that the time that MPI takes to start counts.
const double g_program_start = unix_seconds();

std::string without_space(std::string text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; };
  while (!text.empty() && is_space(text.back())) text.pop_back();
  text.erase(text.begin(), std::find_if_not(text.begin(), text.end(), is_space));
  return text;
}

// The least that a component of the job has left, of the lines in `text`; empty where none has a limit.
std::optional<std::int64_t> least_time_left(const std::string& text) {
  std::optional<std::int64_t> least;
  std::istringstream lines(text + '\n');  // an empty answer is one that is not understood
  for (std::string line; std::getline(lines, line);) {
    const auto left = parse_slurm_time(without_space(line));
    if (left && (!least || *left < *least)) least = left;
  }
  return least;
}

TimeBudget ask_squeue(const TimeBudgetQuestion& of, double now, const CommandRunner& run) {
  const CommandResult answer = run({"squeue", "-h", "-j", of.job, "-o", "%L"}, kPatience);
  const std::string question = "squeue -h -j " + of.job + " -o %L";
  if (!answer.ok()) return {{}, fmt::format("{}: {}", question, answer.problem(kPatience))};
  const std::string text = without_space(answer.output);
  try {
    const auto left = of.heterogeneous ? least_time_left(text) : parse_slurm_time(text);
    if (!left) return {{}, "the job has no time limit, says squeue"};
    return {now + static_cast<double>(*left), "squeue"};
  } catch (const OptionError& error) {
    return {{}, fmt::format("{}: {}", question, error.what())};
  }
}

TimeBudget budget_of_slurm(const TimeBudgetQuestion& question, double now, const CommandRunner& run) {
  if (question.job.empty()) return {{}, "this is no job of Slurm"};
  TimeBudget given;
  if (question.slurm_end_time) {
    const auto end = static_cast<double>(*question.slurm_end_time);
    if (end > now)
      given = {end, "SLURM_JOB_END_TIME"};
    else
      log::warning(
          "SLURM_JOB_END_TIME={} is over already: the limit was extended, or the variable is another job's; "
          "squeue is asked",
          *question.slurm_end_time);
  }
  if (given.end && !question.heterogeneous) return given;
  const TimeBudget asked = ask_squeue(question, now, run);
  return given.end && (!asked.end || *given.end < *asked.end) ? given : asked;
}

}  // namespace

double unix_now() { return unix_seconds(); }
double program_start() { return g_program_start; }

TimeBudget find_time_budget(const TimeBudgetQuestion& question, double now, const CommandRunner& run) {
  TimeBudget budget = budget_of_slurm(question, now, run);
  if (!budget.end && !question.job.empty()) log::info("no time limit is known from Slurm: {}", budget.source);
  if (!question.time_limit) return budget;
  const double end = question.started + static_cast<double>(*question.time_limit);
  if (!budget.end || end < *budget.end) budget = {end, "--time-limit"};
  return budget;
}

void Durations::add(double seconds) {
  seconds_.push_back(seconds);
  if (seconds_.size() > kMost) seconds_.pop_front();
}

double Durations::p95() const {
  if (seconds_.empty()) return 0;
  std::vector<double> sorted(seconds_.begin(), seconds_.end());
  std::sort(sorted.begin(), sorted.end());
  const auto rank = static_cast<std::size_t>(std::ceil(0.95 * static_cast<double>(sorted.size())));
  return sorted[rank - 1];
}

double Deadline::needed(const Ahead& ahead) const {
  const double checkpoint = checkpoints_.empty() ? expected_checkpoint_ : checkpoints_.p95();
  return margin_ + ahead.seconds + steps_.p95() + (ahead.checkpoint ? 2 : 1) * checkpoint;
}

std::optional<double> Deadline::checkpoint_p95() const {
  if (checkpoints_.empty()) return std::nullopt;
  return checkpoints_.p95();
}

}  // namespace shoal::launch

#include "launch/requeue.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

#include "core/check.h"

namespace shoal::launch {
namespace {

// `word`: of what the command prints, the first word; may be null.
void ask(const std::vector<std::string>& command, const CommandRunner& run, std::string* word) {
  constexpr std::chrono::seconds kPatience{30};
  const CommandResult answer = run(command, kPatience);
  SHOAL_CHECK(answer.ok(), IoError,
              "{}: {}; the run is saved and not requeued: submit the job again, or requeue it from the login node",
              fmt::join(command, " "), answer.problem(kPatience));
  if (word != nullptr) std::istringstream(answer.output) >> *word;
}

}  // namespace

RequeuePolicy RequeuePolicy::parse(const std::string& text) {
  RequeuePolicy policy;
  if (text == "never") return policy;
  std::istringstream words(text + ",");
  for (std::string word; std::getline(words, word, ',');) {
    SHOAL_CHECK(word == "on-signal" || word == "on-deadline", OptionError,
                "--requeue takes never, on-signal, on-deadline or on-signal,on-deadline, not '{}'", text);
    (word == "on-signal" ? policy.on_signal : policy.on_deadline) = true;
  }
  return policy;
}

int requeues_of(const std::vector<AttemptRecord>& records, const std::string& job) {
  return static_cast<int>(std::count_if(records.begin(), records.end(), [&](const AttemptRecord& record) {
    return record.requeued && record.job == job;
  }));
}

int attempts_without_progress(const std::vector<AttemptRecord>& records, const std::string& chain, int attempt,
                              std::int64_t step) {
  int count = 0;
  for (auto record = records.rbegin(); record != records.rend(); ++record) {
    if (record->attempt >= attempt) continue;
    // Other jobs' attempts end the row: somebody has started the job by hand, and wants it tried.
    if (record->chain != chain || (record->start_step && *record->start_step < step)) break;
    ++count;
  }
  return count;
}

void check_progress(const std::vector<AttemptRecord>& records, const std::string& chain, int attempt, std::int64_t step,
                    int most) {
  if (most == 0 || chain.empty()) return;
  const int count = attempts_without_progress(records, chain, attempt, step);
  SHOAL_CHECK(
      count < most, NoProgressError,
      "the last {} attempts of job {} came no further than step {}: the job is not tried again (--max-no-progress "
      "{}). The logs and first_failure records of the attempts tell why; where they were killed before their "
      "first checkpoint, give a smaller --checkpoint-every. A new submission is tried again",
      count, chain, step, most);
}

bool requeue(const SlurmJob& job, const CommandRunner& run, std::string& state) {
  ask({"squeue", "-h", "-j", job.address, "-o", "%T"}, run, &state);
  if (state != "RUNNING") return false;
  ask({"scontrol", "requeue", job.address}, run, nullptr);
  return true;
}

}  // namespace shoal::launch

#include "apps/status_text.h"

#include <fmt/core.h>

#include <cmath>
#include <ctime>
#include <nlohmann/json.hpp>
#include <vector>

#include "apps/ckpt_text.h"

namespace shoal::apps {
namespace {

using launch::AttemptRecord;
using launch::FailureRecord;
using launch::RunOverview;
using launch::RunStatus;
using Json = nlohmann::ordered_json;
using Rows = std::vector<std::vector<std::string>>;

std::string utc(double time) {
  const auto seconds = static_cast<std::time_t>(time);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
  return text;
}

// As Slurm writes it: 1-02:03:04.
std::string duration(double seconds) {
  const auto whole = static_cast<long long>(std::max(0.0, seconds) + 0.5);
  const std::string clock = fmt::format("{:02}:{:02}:{:02}", whole / 3600 % 24, whole / 60 % 60, whole % 60);
  return whole < 86400 ? clock : fmt::format("{}-{}", whole / 86400, clock);
}

std::string job_text(const std::string& job) { return job.empty() ? "" : fmt::format(", job {}", job); }

std::string share_text(const RunStatus& status) {
  if (status.total_steps <= 0) return "";
  return fmt::format(" of {} ({:.1f} %)", status.total_steps,
                     100.0 * static_cast<double>(status.step) / static_cast<double>(status.total_steps));
}

void add_status(Rows& rows, const RunOverview& run, double now) {
  const RunStatus& status = *run.status;
  rows.push_back({"attempt", fmt::format("{}{}, {} ranks, rank 0 on {}", status.attempt, job_text(status.job),
                                         status.ranks, status.host)});
  rows.push_back({"step", fmt::format("{}{}, {} epochs done, loss {:.6g}", status.step, share_text(status),
                                      status.epoch, status.loss)});
  if (status.seconds_per_step > 0)
    rows.push_back(
        {"rate", fmt::format("{:.4g} samples/s, {:.3g} s a step", status.samples_per_second, status.seconds_per_step)});
  if (run.seconds_left) rows.push_back({"remaining", "about " + duration(*run.seconds_left)});
  if (run.state == "running" && status.deadline)
    rows.push_back({"time limit", fmt::format("in {}", duration(*status.deadline - now))});
  rows.push_back({"checkpoint", status.last_checkpoint.empty()
                                    ? "none by this attempt"
                                    : fmt::format("{}, {} ago", status.last_checkpoint,
                                                  duration(now - status.last_checkpoint_time))});
  rows.push_back({"last word", fmt::format("{} UTC", utc(status.updated))});
}

std::string step_text(const std::optional<std::int64_t>& step) { return step ? std::to_string(*step) : "-"; }

std::string attempt_table(const std::vector<AttemptRecord>& attempts) {
  Rows rows{{"attempt", "started (UTC)", "job", "host", "ranks", "from step", "to step", "end", "code", "reason"}};
  for (const AttemptRecord& attempt : attempts) {
    const std::string end = launch::text_of(attempt.state);
    rows.push_back({std::to_string(attempt.attempt), utc(attempt.started), attempt.job.empty() ? "-" : attempt.job,
                    attempt.host, std::to_string(attempt.ranks), step_text(attempt.start_step),
                    step_text(attempt.end_step), attempt.requeued ? end + ", requeued" : end,
                    attempt.exit_code ? std::to_string(*attempt.exit_code) : "-", attempt.reason});
  }
  return table_text(rows);
}

std::string failure_text(const FailureRecord& failure) {
  if (failure.rank < 0)  // no rank could tell; the next attempt did
    return fmt::format("attempt {} {}", failure.attempt, failure.reason);
  return fmt::format("first failure of attempt {}: rank {} on {}{}, {} UTC: {} (exit code {})", failure.attempt,
                     failure.rank, failure.host, failure.gpu.empty() ? "" : ", GPU " + failure.gpu, utc(failure.time),
                     failure.reason, failure.exit_code);
}

}  // namespace

std::string status_text(const RunOverview& run, double now) {
  std::string state = run.state;
  if (run.state == "running" && run.status) state += " (" + run.status->phase + ")";
  if (!run.why.empty()) state += ": " + run.why;
  Rows rows{{"run", run.directory.string()}, {"state", state}};
  if (run.status) add_status(rows, run, now);
  std::string text = table_text(rows) + "\n\n" + attempt_table(run.attempts);
  for (const FailureRecord& failure : run.failures) text += "\n" + failure_text(failure);
  return text;
}

std::string status_json(const RunOverview& run) {
  Json json{{"run", run.directory.string()}, {"state", run.state}, {"why", run.why}};
  if (run.status) json["status"] = Json::parse(launch::format(*run.status));
  if (run.seconds_left) json["seconds_left"] = *run.seconds_left;
  json["attempts"] = Json::array();
  for (const AttemptRecord& attempt : run.attempts) json["attempts"].push_back(Json::parse(launch::format(attempt)));
  json["first_failures"] = Json::array();
  for (const FailureRecord& failure : run.failures)
    json["first_failures"].push_back(Json::parse(launch::format(failure)));
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace shoal::apps

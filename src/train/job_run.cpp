#include "train/job_run.h"

#include <unistd.h>

#include <algorithm>

#include "checkpoint/catalog.h"
#include "core/check.h"
#include "core/file_io.h"
#include "core/host_name.h"
#include "core/logging.h"
#include "train/agreement.h"
#include "train/finish.h"
#include "train/job_end.h"
#include "train/training_state.h"

namespace shoal::train {
namespace {

constexpr double kGuessedBytesPerSecond = 100e6;
constexpr double kPauseBetweenFenceChecks = 10;  // seconds

// Collective. On rank 0 alone; the others wait for what it gives.
std::string on_root(comm::ProcessGroup& world, const std::function<std::string()>& body) {
  return run_everywhere(world, [&] { return world.rank() == 0 ? body() : std::string(); })[0];
}

// An IoError of `body` names the option that gave the path.
void naming(const char* option, const std::filesystem::path& path, const std::function<void()>& body) {
  try {
    body();
  } catch (const IoError& error) {
    throw IoError("{} {}: {}", option, path.string(), error.what());
  }
}

double last_checkpoint_seconds(const std::vector<launch::AttemptRecord>& records) {
  const auto last = std::find_if(records.rbegin(), records.rend(),
                                 [](const launch::AttemptRecord& record) { return record.checkpoint_seconds; });
  return last == records.rend() ? 0 : *last->checkpoint_seconds;
}

}  // namespace

JobRun::JobRun(comm::ProcessGroup& world, const TrainOptions& options, JobFacts facts, const launch::StopSignal& stop,
               launch::CommandRunner run)
    : world_(world),
      options_(options),
      facts_(std::move(facts)),
      stop_(stop),
      run_(std::move(run)),
      directory_(options.job.run_dir),
      requeue_(launch::RequeuePolicy::parse(options.job.requeue)) {}

bool JobRun::has_directory() const { return has_run_directory(options_); }

std::optional<ExitCode> JobRun::ends_at_once() {
  if (!has_directory()) return std::nullopt;
  const std::string answer = on_root(world_, [&]() -> std::string {
    std::error_code ignored;
    if (std::filesystem::exists(directory_.stop_request(), ignored)) return "stop";
    return run_is_done(options_, directory_) ? "done" : "";
  });
  if (answer == "done") return ExitCode::ok;
  if (answer.empty()) return std::nullopt;
  log::result("{} is there: nothing is trained; remove it to go on", directory_.stop_request().string());
  return ExitCode::stopped;
}

void JobRun::begin() {
  if (is_root() && requeue_.any() && facts_.job.address.empty())
    log::warning("--requeue {}: this is no job of Slurm (SLURM_JOB_ID is not set), so nothing will be requeued",
                 options_.job.requeue);
  if (!has_directory() && !writes_checkpoints(options_)) return;
  const int number = std::stoi(on_root(world_, [&] { return std::to_string(take_number()); }));
  if (!has_directory()) return;
  attempt_ = launch::RunAttempt{directory_, number};
  on_root(world_, [&]() -> std::string {
    open_notes(number);
    return "";
  });
  run_everywhere(world_, [&]() -> std::string {
    log::append_to(directory_.log(number, world_.rank()));
    return "";
  });
  log::info("attempt {}; its notes are in {}", number, directory_.path().string());
}

// Where the checkpoints are, since the number decides who may write them.
int JobRun::take_number() {
  int above = 0;
  if (writes_checkpoints(options_)) {
    check_checkpoint_dir(options_);
    naming("--checkpoint-dir", options_.checkpoint.directory, [&] { make_directories(options_.checkpoint.directory); });
  }
  if (has_directory()) {
    naming("--run-dir", directory_.path(), [&] { directory_.make(); });
    const auto attempts = directory_.attempts();
    if (!attempts.empty()) above = attempts.back();
  }
  const std::string job = facts_.job.address.empty() ? "" : fmt::format(", job {}", facts_.job.address);
  const std::string who = fmt::format("host {}, process {}{}", host_name(), ::getpid(), job);
  const bool fences = writes_checkpoints(options_);
  auto fence = checkpoint::Fence::take(fences ? options_.checkpoint.directory : directory_.path(), above, who);
  const int number = fence.number();
  if (fences) fence_ = std::move(fence);
  return number;
}

void JobRun::open_notes(int number) {
  launch::AttemptRecord record;
  record.job = facts_.job.address;
  record.chain = facts_.job.chain;
  record.restart_count = facts_.job.restart_count;
  record.host = host_name();
  record.process = ::getpid();
  record.ranks = world_.size();
  journal_.emplace(launch::RunAttempt{directory_, number}, std::move(record));
  requests_.emplace(directory_);
  metrics_.emplace(launch::RunAttempt{directory_, number}, options_, world_.size());
}

void JobRun::going_on_from(std::int64_t step, std::int64_t total_steps, const std::string& device) {
  if (!has_directory()) return;
  on_root(world_, [&]() -> std::string {
    launch::check_progress(launch::read_attempts(directory_), facts_.job.chain, attempt_->number, step,
                           options_.job.max_no_progress);
    journal_->going_on_from(step, total_steps);
    metrics_->start(device, step, total_steps);
    return "";
  });
}

TrainerHooks JobRun::hooks(std::int64_t checkpoint_bytes) {
  stop_.take_back();
  if (is_root()) find_deadline(checkpoint_bytes);
  TrainerHooks hooks;
  hooks.asks = [this](launch::Ahead ahead) { return asks(ahead); };
  hooks.stepped = [this](const Progress& after, const StepResult& result, double seconds) {
    if (deadline_) deadline_->step_took(seconds);
    if (journal_)
      journal_->stepped({.step = after.step,
                         .epoch = after.position.epoch,
                         .loss = result.mean_loss(),
                         .samples = result.samples,
                         .seconds = seconds});
  };
  hooks.saved = [this](const checkpoint::SaveReport& report, std::int64_t step, double seconds) {
    if (deadline_) deadline_->checkpoint_took(seconds);
    if (journal_) journal_->saved(report.path, step, deadline_ ? *deadline_->checkpoint_p95() : seconds);
    if (requests_) requests_->saved();
    if (metrics_) metrics_->checkpoint(step, report.bytes, seconds);
  };
  hooks.measured = [this](const launch::StepMetrics& step) {
    if (metrics_) metrics_->step(step);
  };
  hooks.validated = [this](const Progress& now) {
    if (metrics_) metrics_->validation(now.step, now.test_loss, now.test_accuracy);
  };
  return hooks;
}

void JobRun::find_deadline(std::int64_t checkpoint_bytes) {
  if (!writes_checkpoints(options_)) return;
  const auto budget = launch::find_time_budget({.slurm_end_time = facts_.slurm_end_time,
                                                .job = facts_.job.address,
                                                .heterogeneous = facts_.job.heterogeneous,
                                                .time_limit = time_limit_seconds(options_.job),
                                                .started = launch::program_start()},
                                               launch::unix_now(), run_);
  if (!budget.end) return;
  double expected = has_directory() ? last_checkpoint_seconds(launch::read_attempts(directory_)) : 0;
  if (expected == 0) expected = static_cast<double>(checkpoint_bytes) / kGuessedBytesPerSecond;
  deadline_.emplace(*budget.end, options_.job.time_margin, expected);
  if (journal_) journal_->set_deadline(*budget.end);
  log::info("the time limit strikes in {:.0f} s (by {}); the run is saved and stops before that", deadline_->left(),
            budget.source);
  if (deadline_->due({}))
    log::warning("that is less than a step, a checkpoint and --time-margin {:g} need ({:.0f} s): one step will be done",
                 options_.job.time_margin, deadline_->needed({}));
}

Asks JobRun::asks(launch::Ahead ahead) {
  Asks asks;
  asks.signal = stop_.received() != 0;
  if (asks.signal && !std::exchange(signal_told_, true))
    log::info("{} asks the run to stop", launch::signal_name(stop_.received()));
  // Communicators that are made in the first step may bring handlers of signals too.
  if (signal_checks_++ == 1) stop_.take_back();
  if (requests_) {
    requests_->look();
    asks.stop_file = requests_->stop();
    asks.save = requests_->save() && writes_checkpoints(options_);
  }
  ahead.checkpoint = ahead.checkpoint || asks.save;
  if (deadline_) asks.deadline = deadline_->due(ahead);
  asks.superseded = looks_superseded();
  return asks;
}

// So that an attempt which was cut off does not compute for hours what it can never save.
bool JobRun::looks_superseded() {
  const double now = launch::unix_now();
  if (!fence_ || std::abs(now - fence_checked_) < kPauseBetweenFenceChecks) return false;
  fence_checked_ = now;
  try {
    fence_->check();
  } catch (const SupersededError&) {
    return true;
  } catch (const IoError& error) {
    log::warning("whether this is still the newest attempt cannot be told: {}", error.what());
  }
  return false;
}

void JobRun::finished(const Progress& progress) {
  if (!has_directory()) return;
  on_root(world_, [&]() -> std::string {
    write_done(directory_, {.attempt = attempt_->number, .step = progress.step, .epoch = progress.position.epoch});
    journal_->ended(0, "finished");
    return "";
  });
}

ExitCode JobRun::stopped(const Asks& by) {
  const std::string signal = launch::signal_name(stop_.received());
  const std::string reason = by.deadline ? "the time limit" : by.signal ? signal : "the file STOP";
  log::info("stopped by {}", reason);
  ended(ExitCode::stopped, reason);
  const bool wanted = (by.signal && requeue_.on_signal) || (by.deadline && requeue_.on_deadline);
  if (is_root() && wanted && !by.stop_file && !facts_.job.address.empty()) put_back_into_queue();
  return ExitCode::stopped;
}

void JobRun::put_back_into_queue() {
  const launch::SlurmJob& job = facts_.job;
  const int before = journal_ ? launch::requeues_of(launch::read_attempts(directory_), job.address) : job.restart_count;
  if (before >= options_.job.max_requeues) {
    log::error("job {} was requeued {} times, and --max-requeues is {}: it is saved, and not requeued", job.address,
               before, options_.job.max_requeues);
    return;
  }
  if (journal_) journal_->set_requeued(true);
  log::info("job {} is to go back into the queue (requeue {} of at most {})", job.address, before + 1,
            options_.job.max_requeues);
  try {
    std::string state;
    if (launch::requeue(job, run_, state)) return;
    log::info("job {} is being ended from outside (squeue: '{}'): it is not put back", job.address, state);
  } catch (const IoError& error) {
    log::error("{}", error.what());
  }
  if (journal_) journal_->set_requeued(false);
}

void JobRun::ended(ExitCode code, const std::string& reason) noexcept {
  try {
    if (journal_) journal_->ended(static_cast<int>(code), reason);
  } catch (const std::exception& error) {
    log::warning("the end of this attempt is not noted: {}", error.what());
  }
}

}  // namespace shoal::train

#include "launch/run_journal.h"

#include <system_error>

#include "core/check.h"
#include "core/file_io.h"
#include "core/logging.h"

namespace shoal::launch {
namespace {

constexpr double kPause = 1;  // seconds between two looks or two notes

bool is_there(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

}  // namespace

RunJournal::RunJournal(RunAttempt attempt, AttemptRecord record, UnixClock clock)
    : attempt_(std::move(attempt)), record_(std::move(record)), clock_(std::move(clock)) {
  record_.attempt = attempt_.number;
  record_.started = clock_();
  status_.attempt = attempt_.number;
  status_.job = record_.job;
  status_.host = record_.host;
  status_.ranks = record_.ranks;
  status_.phase = "starting";
  const auto path = attempt_.directory.attempt(attempt_.number);
  SHOAL_CHECK(create_text_file(path, format(record_)), IoError,
              "{} is there already: a job with another --checkpoint-dir has the same --run-dir; give each its own",
              path.string());
  write_status();
}

void RunJournal::going_on_from(std::int64_t step, std::int64_t total_steps) {
  record_.start_step = step;
  status_.step = step;
  status_.total_steps = total_steps;
  status_.phase = "training";
  write_record(true);
  write_status();
}

void RunJournal::stepped(const StepNote& note) {
  status_.step = note.step;
  status_.epoch = note.epoch;
  status_.loss = note.loss;
  status_.phase = "training";
  samples_ += note.samples;
  seconds_ += note.seconds;
  ++steps_;
  const double now = clock_();
  if (now - status_written_ < kPause && now >= status_written_) return;
  status_.seconds_per_step = seconds_ / static_cast<double>(steps_);
  status_.samples_per_second = seconds_ > 0 ? static_cast<double>(samples_) / seconds_ : 0;
  samples_ = steps_ = 0;
  seconds_ = 0;
  write_status();
}

void RunJournal::saved(const std::filesystem::path& checkpoint, std::int64_t step, double seconds) {
  record_.end_step = step;
  record_.checkpoint_seconds = seconds;
  std::error_code ignored;
  const auto absolute = std::filesystem::absolute(checkpoint, ignored);
  status_.last_checkpoint = (ignored ? checkpoint : absolute).string();
  status_.last_checkpoint_step = step;
  status_.last_checkpoint_time = clock_();
  write_record(false);
  write_status();
}

void RunJournal::set_requeued(bool requeued) {
  record_.requeued = requeued;
  write_record(false);
}

void RunJournal::ended(int exit_code, const std::string& reason) {
  if (record_.ended) return;
  record_.ended = clock_();
  record_.exit_code = exit_code;
  record_.state = state_of_exit_code(exit_code);
  record_.reason = reason;
  status_.state = record_.state;
  status_.phase = reason;
  write_record(false);
  write_status();
}

void RunJournal::write_record(bool must) {
  try {
    replace_text_file(attempt_.directory.attempt(attempt_.number), format(record_));
  } catch (const IoError& error) {
    if (must) throw;
    log::warning("the record of this attempt is out of date: {}", error.what());
  }
}

void RunJournal::write_status() {
  status_.updated = status_written_ = clock_();
  try {
    replace_text_file(attempt_.directory.status(), format(status_), /*synced=*/false);
  } catch (const IoError& error) {
    if (!warned_) log::warning("'shoal status' will show old values: {}", error.what());
    warned_ = true;
  }
}

void RequestFiles::look() {
  const double now = clock_();
  if (now - looked_ < kPause && now >= looked_) return;
  looked_ = now;
  stop_ = is_there(directory_.stop_request());
  const bool there = is_there(directory_.save_request());
  if (!there) save_stays_ = false;
  save_ = there && !save_stays_;
}

void RequestFiles::saved() {
  if (!save_) return;
  save_ = false;
  std::error_code error;
  std::filesystem::remove(directory_.save_request(), error);
  if (!error) return;
  save_stays_ = true;
  log::warning("{} was followed, but cannot be removed: {}", directory_.save_request().string(), error.message());
}

}  // namespace shoal::launch

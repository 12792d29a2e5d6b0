#include "launch/job_watch.h"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/file_io.h"
#include "core/host_name.h"
#include "core/logging.h"
#include "launch/first_failure.h"
#include "launch/node_report.h"
#include "launch/run_records.h"

namespace shoal::launch {
namespace {

constexpr int kReportsKept = 10;                   // attempts
constexpr std::chrono::milliseconds kPeriod{100};  // short, since the death of a rank may be followed by that of all

struct Home {
  std::array<char, 252> host{};
  int node = 0;  // its lowest rank
};

// Collective over MPI_COMM_WORLD.
std::vector<Home> exchange_homes(int node) {
  Home mine{.node = node};
  const std::string name = host_name();
  std::memcpy(mine.host.data(), name.data(), std::min(name.size(), mine.host.size() - 1));
  int size = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  std::vector<Home> all(static_cast<std::size_t>(size));
  const int code = MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all.data(), sizeof mine, MPI_BYTE, MPI_COMM_WORLD);
  SHOAL_CHECK(code == MPI_SUCCESS, CommunicationError, "MPI_Allgather failed while the ranks exchanged their hosts");
  return all;
}

// An attempt that was killed as a whole could not write what it was at; its last reports tell.
void record_silent_end(const RunAttempt& now) {
  constexpr int kNobody = -1, kUnknown = -1;
  const std::vector<AttemptRecord> attempts = read_attempts(now.directory);
  const auto last = std::find_if(attempts.rbegin(), attempts.rend(),
                                 [&](const AttemptRecord& record) { return record.attempt < now.number; });
  if (last == attempts.rend() || last->state != RunState::running) return;
  const auto seen = last_seen(now.directory.where(), last->attempt);
  FailureRecord record{.attempt = last->attempt, .rank = kNobody, .time = last->started, .exit_code = kUnknown};
  record.reason =
      fmt::format("left no word of its end (all of it was killed, its nodes failed, or it runs on cut off); {}",
                  seen ? *seen : "it left no report of what its ranks were doing");
  if (create_text_file(now.directory.first_failure(last->attempt), format(record)))
    log::info("attempt {} {}", record.attempt, record.reason);
}

// What is missing for a reason that is none of this job's must not keep it from training.
void look_back(const RunAttempt& now) {
  try {
    record_silent_end(now);
    forget_reports_before(now.directory.where(), now.number - kReportsKept);
  } catch (const Error& error) {
    log::warning("{}", error.what());
  }
}

HangWatchOptions hang_options(const JobWatchOptions& options, int node) {
  HangWatchOptions hang{.timeout = options.hang_timeout};
  for (const Home& home : exchange_homes(node)) {
    hang.hosts.emplace_back(home.host.data());
    hang.nodes.push_back(home.node);
  }
  if (!options.attempt) return hang;
  hang.where = options.attempt->directory.where();
  hang.attempt = options.attempt->number;
  hang.first_failure = options.attempt->directory.first_failure(hang.attempt);
  return hang;
}

}  // namespace

JobWatch::JobWatch(const JobWatchOptions& options) {
  const int node = node_.slots()[0]->rank;
  HangWatchOptions hang = hang_options(options, node);
  const bool many_nodes = std::any_of(hang.nodes.begin(), hang.nodes.end(), [](int of_rank) { return of_rank != 0; });
  if (!options.attempt && many_nodes && options.hang_timeout.count() > 0)
    log::info("no run directory (--run-dir): a hang will be told by each node for its own ranks");
  keep_failures_in(hang.first_failure, {.attempt = hang.attempt, .host = host_name()});
  if (options.attempt && activity::slot().rank == 0) look_back(*options.attempt);
  hangs_.emplace(node_.slots(), node_.own(), std::move(hang));
  watch_.emplace(kPeriod, [this](const std::string& line) { leave_now(hangs_->exit_code(), line); });
  watch_->add(*hangs_);
  record_crashes();
}

JobWatch::~JobWatch() { activity::leave_with(static_cast<int>(ExitCode::ok)); }

}  // namespace shoal::launch

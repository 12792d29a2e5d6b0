// The first failure of an attempt, in a file that the first rank to fail makes and no other can change, and ways for a
// process to end that leave it behind. One process has one such file, since handlers of signals need it.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

#include "core/activity.h"

namespace shoal::launch {

struct FailureContext {
  int attempt = 0;
  std::string host;
};

// From now on failures go to `file`, in a folder that exists; empty: nowhere. Its fields are those of FailureRecord in
// launch/run_records.h, and what the rank was doing.
void keep_failures_in(const std::filesystem::path& file, const FailureContext& context);
// The GPU that this rank computes on, which is in its record from now on.
void name_gpu_of_failures(const std::string& gpu);

// Writes the record unless there is one; true: this is the first. Gives the system no time to write it to a disk, since
// the process is about to end. From any thread.
bool record_failure(int exit_code, const std::string& reason) noexcept;
// The same for another rank, which cannot speak for itself.
bool record_failure_of(const activity::Reading& whose, const std::string& host, int exit_code,
                       const std::string& reason) noexcept;

// From now on SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT and std::terminate() leave a record, then do what they did
// before. Once, after MPI_Init, whose handlers print a stack.
void record_crashes();

// Ends this process from any thread, whatever the main thread is in. Where `reason` is not empty it is told and
// recorded; else another rank has done so. A main thread that waits in MPI, here or on another rank, is given the time
// to abort the job with that code (see activity::leave_if_asked), since launchers keep that of MPI_Abort; then nothing
// is put in order any more.
[[noreturn]] void leave_now(int exit_code, const std::string& reason,
                            std::chrono::milliseconds grace = std::chrono::seconds(5)) noexcept;

}  // namespace shoal::launch

// The exit codes of every program of Shoal. docs/exit_codes.md is the table for users; a test compares the two.
#pragma once

namespace shoal {

enum class ExitCode : int {
  ok = 0,
  internal = 1,       // a defect of Shoal or of a library below it
  usage = 2,          // an option or a combination of options is wrong
  data = 3,           // the training data are missing or malformed
  checkpoint = 4,     // a checkpoint is damaged, or is one of another model
  io = 5,             // a file could not be written or read: disk full, quota, permission
  communication = 6,  // MPI or NCCL failed, a rank did not come in time, or the ranks disagree
  device = 7,         // no such device, or out of its memory
  hang = 20,          // the watchdog saw no progress within --hang-timeout
  no_progress = 21,   // several attempts in a row came no step further: starting again would not help
  superseded = 22,    // a newer attempt owns the checkpoint directory; this one left it alone
  stopped = 75,       // stopped by a signal or a time limit after a checkpoint was saved: start again to go on
};

}  // namespace shoal

// Saving and restoring a job's state, collectively. docs/checkpoint_format.md gives the files byte by byte.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "checkpoint/fence.h"
#include "checkpoint/save_point.h"
#include "comm/process_group.h"
#include "shard/state_dict.h"

namespace shoal::checkpoint {

struct CheckpointerOptions {
  std::filesystem::path directory;  // holds step_*/ and latest; made where it is missing
  int keep = 2;                     // newest complete checkpoints kept; older ones are deleted after a save. >= 1
  SaveObserver observer;            // for tests: is told what point a save has come to
  // Rank 0's right to write here. Empty on the others; empty on all: nobody else may write there meanwhile.
  std::optional<Fence> fence;
  std::int64_t keep_every = 0;  // kept for ever: steps that are multiples of it (retention.h); 0: none
};

struct SaveReport {
  std::filesystem::path path;
  std::int64_t bytes = 0;  // of all ranks
  double seconds = 0;
};

struct Restored {
  std::filesystem::path path;
  std::int64_t step = 0;
  int ranks = 0;               // that wrote it
  std::string training_state;  // the JSON text given to save()
};

// All calls are collective over `world` (host memory). An error on one rank is an error on all, with that rank named.
class Checkpointer {
 public:
  // Throws IoError where the directory cannot be made or written.
  Checkpointer(comm::ProcessGroup& world, CheckpointerOptions options);

  // With a fence: from here on older attempts on the directory are superseded. To be called before anything is
  // restored, so that what is found there stays. SupersededError where a newer attempt was faster.
  void enter();
  // SupersededError where a newer attempt has entered.
  void check();

  // Writes `state` as checkpoint `step`. What was complete before stays complete until this one is; after an error
  // (IoError: disk full, …) nothing of the attempt is left. SupersededError where a newer attempt has entered, which
  // may come after this checkpoint was committed. `training_state`: a JSON object, the same on every rank.
  SaveReport save(std::int64_t step, const StateDict& state, const std::string& training_state);

  // `from`: "auto" = the newest complete and sound checkpoint of the directory, falling back loudly to older ones
  // (nothing there at all: nullopt; some there but none sound: CheckpointError); else the path of one checkpoint or
  // of a checkpoint directory, where damage is an error. Fills the regions of `state` for any number of ranks; names,
  // shapes and dtypes must agree both ways, else CheckpointError that lists the differences. After an error the
  // regions hold anything.
  std::optional<Restored> restore(StateDict& state, const std::string& from);

 private:
  const Fence* fence() const { return options_.fence ? &*options_.fence : nullptr; }
  void explain_failure() const;

  comm::ProcessGroup* world_;
  CheckpointerOptions options_;
};

}  // namespace shoal::checkpoint

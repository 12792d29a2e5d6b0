// Saving and restoring a job's state, collectively. docs/checkpoint_format.md gives the files byte by byte.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/fence.h"
#include "checkpoint/match_rules.h"
#include "checkpoint/remover.h"
#include "checkpoint/save_point.h"
#include "checkpoint/staging_pool.h"
#include "comm/process_group.h"
#include "shard/state_dict.h"

namespace shoal::checkpoint {

struct CheckpointerOptions {
  std::filesystem::path directory;  // holds step_*/ and latest; made where it is missing
  int keep = 2;                     // newest complete checkpoints kept; older ones are deleted after a save. >= 1
  int files = 0;                    // of a checkpoint; see file_of_ranks()
  bool view = false;                // with model.h5 (view.h), of at most kMostViewFiles files
  SaveObserver observer;            // for tests: is told what point a save has come to
  // Rank 0's right to write here. Empty on the others; empty on all: nobody else may write there meanwhile.
  std::optional<Fence> fence;
  std::int64_t keep_every = 0;  // kept for ever: steps that are multiples of it (retention.h); 0: none
  // For start_save(): bytes of host memory that this rank's copies may take, and who makes it.
  std::int64_t stage_bytes = std::int64_t{1} << 30;
  StagingPool::Allocate allocate_stage;
  int read_workers = 1;  // threads in which this rank's part is read back
};

class SaveInFlight;

// The ranks that write one shard file together.
struct FileGroup {
  int index = 0, files = 0;                   // this rank's file, and how many there are
  std::unique_ptr<comm::ProcessGroup> ranks;  // null: this rank alone
};

struct SaveReport {
  std::filesystem::path path;
  std::int64_t bytes = 0;  // of all ranks
  // Of the rank that wrote longest, then of the commit and the removal of old ones. Without what they waited for steps
  // of training in between.
  double seconds = 0;
};

struct Restored {
  std::filesystem::path path;
  std::int64_t step = 0;
  int ranks = 0;                   // that wrote it
  std::string training_state;      // the JSON text given to save()
  std::vector<std::string> notes;  // differences between its tensors and the state's that the rules allowed
};

// All calls are collective over `world` (host memory). An error on one rank is an error on all, with that rank named.
class Checkpointer {
 public:
  // Throws IoError where the directory cannot be made or written.
  Checkpointer(comm::ProcessGroup& world, CheckpointerOptions options);
  ~Checkpointer();  // gives up a save in flight
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;

  int files() const { return file_group_.files; }  // of a checkpoint

  // With a fence: from here on older attempts on the directory are superseded. To be called before anything is
  // restored, so that what is found there stays. SupersededError where a newer attempt was faster.
  void enter();
  // SupersededError where a newer attempt has entered.
  void check();

  // Writes `state` as checkpoint `step`. What was complete before stays complete until this one is; after an error
  // (IoError: disk full, …) nothing of the attempt is left. SupersededError where a newer attempt has entered, which
  // may come after this checkpoint was committed. `training_state`: a JSON object, the same on every rank. Not while
  // another save is in flight.
  SaveReport save(std::int64_t step, StateDict state, const std::string& training_state);

  // Makes what start_save() needs of host memory for this rank's part of `state` ahead and in the background, as far as
  // stage_bytes allows: before the first step. Not while a save is in flight. Not collective.
  void prepare_saves(const StateDict& state);

  // As save() while the caller goes on. Buffers have been copied when this returns; whatever else `state` refers to
  // must not change before await_copies() has returned. Then, whenever all ranks are save_idle(), which they tell each
  // other by means of their own, all call continue_save(), until it returns the report. One save is in flight at a
  // time. Errors as of save(), from any of these calls; after one, no save is in flight.
  void start_save(std::int64_t step, StateDict state, const std::string& training_state);
  bool saving() const { return in_flight_ != nullptr; }  // the same on every rank
  void await_copies();                                   // not collective
  bool save_idle() const;                                // not collective
  std::optional<SaveReport> continue_save();
  SaveReport finish_save();  // waits for the one that is in flight
  // Rank 0, after one of these has thrown: the checkpoint, where it had been committed all the same. A newer attempt
  // that came right after that goes on from it.
  const std::optional<SaveReport>& committed_despite_error() const { return committed_despite_error_; }

  // `from`: "auto" = the newest complete and sound checkpoint of the directory, falling back loudly to older ones
  // (nothing there at all: nullopt; some there but none sound: CheckpointError); else the path of one checkpoint or
  // of a checkpoint directory, where damage is an error. Fills the regions of `state` for any number of ranks; names,
  // shapes and dtypes must agree both ways but for what `rules` allow, else CheckpointError that lists the differences.
  // Ranks that hold the same elements read each a part of them. After an error the regions hold anything.
  std::optional<Restored> restore(StateDict& state, const std::string& from, const MatchRules& rules = {});

 private:
  const Fence* fence() const { return options_.fence ? &*options_.fence : nullptr; }
  void start(std::int64_t step, StateDict state, const std::string& training_state, std::int64_t stage_bytes);

  comm::ProcessGroup* world_;
  CheckpointerOptions options_;
  FileGroup file_group_;
  StagingPool pool_;
  Remover remover_;
  std::unique_ptr<SaveInFlight> in_flight_;
  std::optional<SaveReport> committed_despite_error_;
};

}  // namespace shoal::checkpoint

// One save, from the first look at the state to the commit. Each rank writes its shard file on a thread of its own;
// when all have told that theirs is on the disk, rank 0 commits, on a thread as well. What the ranks tell each other
// goes over `world` from the caller's thread, and only in calls that say so.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <string>

#include "checkpoint/attempt.h"
#include "checkpoint/background_writer.h"
#include "checkpoint/checkpointer.h"
#include "checkpoint/remover.h"
#include "checkpoint/shared_shard.h"

namespace shoal::checkpoint {

class SaveInFlight {
 public:
  // Collective over `world`, which like the other references must outlive this. `stage_bytes` as in BackgroundWriter.
  // Errors that are known at once are thrown here, and nothing is left of the save then.
  SaveInFlight(comm::ProcessGroup& world, const FileGroup& file_group, const CheckpointerOptions& options,
               std::int64_t step, StateDict state, const std::string& training_state, StagingPool& pool,
               std::int64_t stage_bytes, Remover& remover);
  // Gives the save up where it is not committed.
  ~SaveInFlight();
  SaveInFlight(const SaveInFlight&) = delete;
  SaveInFlight& operator=(const SaveInFlight&) = delete;

  void wait_copied();
  std::int64_t step() const { return step_; }
  // Whether this rank has nothing left to do before go_on().
  bool idle() const;
  // Collective over `world`; waits for ranks that are not idle yet. The report once all is done; until then there is
  // more to come. Throws what went wrong on any rank, on all of them.
  std::optional<SaveReport> go_on();
  // Rank 0, after an error: the checkpoint, where it was committed all the same.
  std::optional<SaveReport> committed() const;

 private:
  void start_writing(StateDict state, StagingPool& pool, std::int64_t stage_bytes);
  void finish_writing();
  void collect_files();
  void start_commit();
  SaveReport finish();
  void give_up() noexcept;
  void explain_failure() const;
  const Fence* fence() const { return options_.fence ? &*options_.fence : nullptr; }

  comm::ProcessGroup& world_;
  const FileGroup& file_group_;
  const CheckpointerOptions& options_;
  const std::int64_t step_;
  Attempt attempt_;
  Manifest manifest_;  // rank 0's; the files are added when they are there
  SaveReport report_;
  Remover& remover_;  // rank 0's deletes old checkpoints
  std::optional<SharedShard> shared_;
  std::unique_ptr<BackgroundWriter> writer_;
  std::exception_ptr start_error_;  // why this rank has no writer
  bool committing_ = false, over_ = false;
  std::filesystem::path committed_path_;  // valid once it is
  std::atomic<bool> committed_ = false;
  std::atomic<std::int64_t> commit_moves_ = 0;
  struct Committed {
    std::filesystem::path path;
    double seconds = 0;
  };
  std::future<Committed> commit_;  // rank 0's; last: its thread works on the others
};

}  // namespace shoal::checkpoint

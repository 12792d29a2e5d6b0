// Rank 0's part of a save: the directory's life from attempt to complete checkpoint. What was complete before stays
// complete until the new one is, whatever happens in between.
//
//   1. begin_attempt: ask the fence; sweep what killed attempts left, give a displaced checkpoint its name back; make
//      step_N.tmp.<attempt>.<id>/shards
//   2. (every rank writes and syncs its shard file)
//   3. commit: manifest, sync; COMMIT, sync; sync the directories; ask the fence; a checkpoint of the same step is
//      renamed out of the way (.old., still complete); rename to step_N; sync the parent. From here on the new one
//      counts
//   4. tidy_up: `latest` by write and rename; remove the displaced one and what the retention does not keep, asking the
//      fence about each
//
// `fence` may be null: then nobody else must write to the directory meanwhile. Where a newer attempt has entered it,
// each function throws SupersededError and leaves what is complete as it is.
#pragma once

#include <filesystem>
#include <functional>

#include "checkpoint/fence.h"
#include "checkpoint/manifest.h"
#include "checkpoint/retention.h"
#include "checkpoint/save_point.h"
#include "core/file_io.h"

namespace shoal::checkpoint {

struct Attempt {
  std::filesystem::path directory;  // that holds the checkpoints
  std::filesystem::path path;       // of the attempt
  std::string id;
  std::int64_t sequence = 0;
  std::int64_t step = 0;
  const Fence* fence = nullptr;
};

// IoError where the directory cannot be written; nothing is left then.
Attempt begin_attempt(const std::filesystem::path& directory, std::int64_t step, const Fence* fence = nullptr,
                      const SaveObserver& observer = {});

// Checks the files' sizes against the manifest's and makes the attempt the checkpoint of its step. Returns its path.
std::filesystem::path commit(const Attempt& attempt, const Manifest& manifest, const SaveObserver& observer = {});

// Deletes a directory whose name says that nobody reads it any more, now or later.
using Remove = std::function<void(const std::filesystem::path&)>;

// Never throws away the last sound checkpoint, nor one that it cannot read. What cannot be removed is a warning: the
// new checkpoint is safe all the same.
void tidy_up(const std::filesystem::path& directory, const Retention& retention, const Fence* fence = nullptr,
             const SaveObserver& observer = {}, const Remove& remove = remove_tree);

// COMMIT, the manifest and the sizes of the files are as they should be. No byte of a tensor is read.
bool is_sound(const std::filesystem::path& checkpoint);

// Deletes one checkpoint: it has a temporary name first, so that half of it is never taken for a whole. The fence is
// asked before that and once more after it, when the checkpoint gets its name back if a newer attempt has come. So it
// does where `number` (directory_number(), 0: any) shows that a save has given the name to another one: IoError.
void remove_checkpoint(const std::filesystem::path& checkpoint, const Fence* fence, const SaveObserver& observer = {},
                       std::uint64_t number = 0, const Remove& remove = remove_tree);

// After an error: removes what there is of the attempt. Does not throw; what stays is swept by the next save.
void abandon(const Attempt& attempt) noexcept;

}  // namespace shoal::checkpoint

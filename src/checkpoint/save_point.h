// The points of the commit protocol between which the state of the disk changes, in the order in which a save passes
// them. Tests put an observer there that ends the process, or throws what a full disk would.
#pragma once

#include <functional>

namespace shoal::checkpoint {

enum class SavePoint {
  begin_allowed,       // rank 0: the fence was asked, nothing is done yet
  attempt_made,        // rank 0: the temporary directory is there
  shard_created,       // each rank: the HDF5 structure is there, the data are not
  shard_half_written,  // each rank: some of the data are
  shard_written,       // each rank: all is written, nothing is synced
  shard_synced,        // each rank
  manifest_written,    // rank 0, from here on
  committed,           // COMMIT is written and synced, the directory still has its temporary name
  commit_allowed,      // the fence was asked again
  old_displaced,       // only where the step existed: the old one was renamed
  renamed,             // the new one has its name
  latest_staged,       // the new "latest" is written beside the old one
  latest_replaced,
  removal_allowed,  // the fence was asked about an old checkpoint
  old_set_aside,    // an old checkpoint has its temporary name and is about to be deleted
  finished,
};

// Empty in production.
using SaveObserver = std::function<void(SavePoint)>;

inline void pass(const SaveObserver& observer, SavePoint point) {
  if (observer) observer(point);
}

}  // namespace shoal::checkpoint

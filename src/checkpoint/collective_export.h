// One HDF5 file with whole tensors, written by all ranks of a job at once: what export_checkpoint() writes, byte for
// byte, through collective MPI-IO (hdf5/mpio.h).
#pragma once

#include "checkpoint/export.h"
#include "comm/mpi_process_group.h"

namespace shoal::checkpoint {

// Collective over `world`. Of `options`, which are the same on all ranks, the output is HDF5; workers, memory and
// member are not used, and nothing goes on after a kill: what is left of one is replaced. Each rank reads its share of
// the checkpoint, checks it, converts it and writes it in collective calls; the file is synced by every rank, each
// reads back what its neighbour has written, then rank 0 gives it its name. What goes wrong on any rank is one error on
// all: CheckpointError for damage, IoError where the output cannot be written, which leaves nothing behind; OptionError
// in a build without parallel HDF5, or where another export is writing it. A rank that fails in the middle of MPI-IO
// may leave the others there: then it throws LateRanksError after the group's time limit, having logged what was wrong.
// Takes about twice `piece_bytes` on each rank, and what MPI-IO takes.
ExportReport export_collectively(comm::MpiProcessGroup& world, const ExportOptions& options);

inline constexpr std::int64_t kCollectivePieceBytes = 8 << 20;

}  // namespace shoal::checkpoint

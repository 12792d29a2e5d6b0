// Runs a test's body on every rank of a job. The same cases are linked twice: with on_fake_ranks.cpp the ranks are
// threads, for each rank count in turn (fast, under sanitizers too); with on_mpi_ranks.cpp they are those of mpirun.
#pragma once

#include <functional>

#include "comm/process_group.h"

namespace shoal::testing {

void on_ranks(const std::function<void(comm::ProcessGroup&)>& body);

// The same, on `ranks` ranks alone; nothing happens in an MPI job of another size.
void on_ranks(int ranks, const std::function<void(comm::ProcessGroup&)>& body);

}  // namespace shoal::testing

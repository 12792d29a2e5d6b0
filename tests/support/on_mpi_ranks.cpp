#include <gtest/gtest.h>

#include "comm/mpi_process_group.h"
#include "support/on_ranks.h"

namespace shoal::testing {

void on_ranks(const std::function<void(comm::ProcessGroup&)>& body) {
  comm::MpiProcessGroup world(MPI_COMM_WORLD);
  world.set_timeout(std::chrono::seconds(20));
  body(world);
}

void on_ranks(int ranks, const std::function<void(comm::ProcessGroup&)>& body) {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size != ranks) GTEST_SKIP() << "for " << ranks << " ranks";
  on_ranks(body);
}

}  // namespace shoal::testing

// Messages between two ranks that give up in time.
#pragma once

#include <mpi.h>

#include <chrono>
#include <cstddef>
#include <vector>

#include "comm/mpi_process_group.h"

namespace shoal::preflight {

class PeerMessages {
 public:
  // Collective over `comm`, which is duplicated. Messages have at most `capacity` bytes.
  PeerMessages(MPI_Comm comm, std::size_t capacity);

  // What is sent from and received into. A call that gives up leaves the old memory to MPI, and makes a new one here.
  std::byte* data() { return buffer_.data(); }
  // false where the peer did not take it, or sent nothing, in time.
  bool send(int peer, int tag, std::size_t bytes, std::chrono::milliseconds limit);
  bool receive(int peer, int tag, std::size_t bytes, std::chrono::milliseconds limit);

 private:
  bool finish(MPI_Request request, std::chrono::milliseconds limit);

  comm::UniqueMpiComm comm_;
  std::vector<std::byte> buffer_;
};

}  // namespace shoal::preflight

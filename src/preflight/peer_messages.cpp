#include "preflight/peer_messages.h"

#include <list>
#include <utility>

#include "comm/mpi_check.h"
#include "comm/mpi_exchange.h"

namespace shoal::preflight {

PeerMessages::PeerMessages(MPI_Comm comm, std::size_t capacity) : buffer_(capacity) {
  MPI_Comm copy = MPI_COMM_NULL;
  SHOAL_MPI(MPI_Comm_dup(comm, &copy));
  comm_.reset(copy);
  SHOAL_MPI(MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN));
}

bool PeerMessages::send(int peer, int tag, std::size_t bytes, std::chrono::milliseconds limit) {
  MPI_Request request = MPI_REQUEST_NULL;
  SHOAL_MPI(MPI_Isend(buffer_.data(), static_cast<int>(bytes), MPI_BYTE, peer, tag, comm_.get(), &request));
  return finish(request, limit);
}

bool PeerMessages::receive(int peer, int tag, std::size_t bytes, std::chrono::milliseconds limit) {
  MPI_Request request = MPI_REQUEST_NULL;
  SHOAL_MPI(MPI_Irecv(buffer_.data(), static_cast<int>(bytes), MPI_BYTE, peer, tag, comm_.get(), &request));
  return finish(request, limit);
}

bool PeerMessages::finish(MPI_Request request, std::chrono::milliseconds limit) {
  std::vector<MPI_Request> requests{request};
  if (comm::poll(requests, limit)) return true;
  // MPI may still write to the memory, at any time until it ends.
  static std::list<std::vector<std::byte>>& abandoned = *new std::list<std::vector<std::byte>>;
  const std::size_t capacity = buffer_.size();
  abandoned.push_back(std::move(buffer_));
  buffer_.assign(capacity, std::byte{});
  return false;
}

}  // namespace shoal::preflight

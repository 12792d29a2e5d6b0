#include "launch/node_slots.h"

#include <fcntl.h>
#include <mpi.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <random>

#include "core/check.h"
#include "core/logging.h"

namespace shoal::launch {
namespace {

using activity::Slot;

void check(int code, const char* call) {
  SHOAL_CHECK(code == MPI_SUCCESS, CommunicationError, "{} failed while the ranks of a node met", call);
}

struct Node {
  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0, size = 1;

  Node() {
    int world_rank = 0;
    check(MPI_Comm_rank(MPI_COMM_WORLD, &world_rank), "MPI_Comm_rank");
    check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, world_rank, MPI_INFO_NULL, &comm),
          "MPI_Comm_split_type");
    check(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
    check(MPI_Comm_size(comm, &size), "MPI_Comm_size");
    activity::slot().rank = world_rank;
  }
  ~Node() {
    if (comm != MPI_COMM_NULL) MPI_Comm_free(&comm);
  }
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  // Whether all of the node's ranks have `mine`; they are all here when it returns.
  bool all(bool mine) const {
    int value = mine ? 1 : 0;
    check(MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_MIN, comm), "MPI_Allreduce");
    return value != 0;
  }
};

using Name = std::array<char, 64>;

Name shared_name(const Node& node) {
  Name name{};
  if (node.rank == 0)
    std::snprintf(name.data(), name.size(), "/shoal-%ld-%08x", static_cast<long>(getpid()), std::random_device{}());
  check(MPI_Bcast(name.data(), static_cast<int>(name.size()), MPI_CHAR, 0, node.comm), "MPI_Bcast");
  return name;
}

// Null, with errno set, where there is no such memory. A full file system must tell here, not at the first write.
void* map(const Name& name, bool makes, std::size_t bytes) {
  const int file = shm_open(name.data(), O_RDWR | (makes ? O_CREAT | O_EXCL : 0), 0600);
  if (file < 0) return nullptr;
  if (makes) errno = posix_fallocate(file, 0, static_cast<off_t>(bytes));
  void* memory = makes && errno != 0 ? MAP_FAILED : mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  const int error = errno;
  close(file);
  errno = error;
  return memory == MAP_FAILED ? nullptr : memory;
}

}  // namespace

// The name lives only until all have the memory: a job that is killed leaves nothing behind.
NodeSlots::NodeSlots() {
  const Node node;
  const auto count = static_cast<std::size_t>(node.size);
  const Name name = shared_name(node);
  bytes_ = count * sizeof(Slot);
  if (node.rank == 0) memory_ = map(name, true, bytes_);
  const int error = errno;
  if (node.rank == 0 && memory_)
    for (std::size_t i = 0; i < count; ++i) new (static_cast<Slot*>(memory_) + i) Slot;
  const bool made = node.all(node.rank != 0 || memory_);
  if (made && node.rank != 0) memory_ = map(name, false, bytes_);
  const bool all_see_it = node.all(memory_ != nullptr);
  if (node.rank == 0) shm_unlink(name.data());
  if (!all_see_it) {
    if (node.rank == 0)
      log::warning(
          "the ranks of this node have no memory to share ({}), so that they cannot tell what a stopped rank "
          "of them was doing",
          std::strerror(error));
    slots_ = {&activity::slot()};
    return;
  }
  for (std::size_t i = 0; i < count; ++i) slots_.push_back(static_cast<Slot*>(memory_) + i);
  own_ = static_cast<std::size_t>(node.rank);
  activity::use_slot(slots_[own_]);
  node.all(true);  // every slot says whose it is
}

NodeSlots::~NodeSlots() {
  activity::use_slot(nullptr);
  if (memory_) munmap(memory_, bytes_);
}

}  // namespace shoal::launch

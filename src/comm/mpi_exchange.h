// The two kinds of work that collectives over MPI are made of, and how both wait within the group's time limit.
#pragma once

#include <mpi.h>

#include <functional>
#include <string>
#include <vector>

#include "comm/mpi_process_group.h"

namespace shoal::comm {

// Message kinds go into the tag, so that ranks in different collectives time out by name and never swap data.
enum class MessageKind { all_gather, reduce_scatter, all_reduce, all_to_all, barrier, broadcast };
constexpr int kMessageKinds = 6;

// Requests of one of MPI's own collectives: which rank is late is not known.
class MpiTreeWork final : public Work {
 public:
  explicit MpiTreeWork(MpiProcessGroup& group) : group_(&group), activity_(group.activity()) {}
  MPI_Request* add() { return &requests_.emplace_back(MPI_REQUEST_NULL); }
  void wait() override;

 private:
  MpiProcessGroup* group_;
  std::string activity_;  // when it started: by the time of wait() the group may be at the next one
  std::vector<MPI_Request> requests_;
};

// Polls until all requests are done, leaving the core to others now and then; false where the time is up before.
bool poll(std::vector<MPI_Request>& requests, std::chrono::milliseconds timeout);

// Messages from and to all peers, and what is done with them once they are in.
class MpiExchange final : public Work {
 public:
  MpiExchange(MpiProcessGroup& group, MessageKind kind);
  ~MpiExchange() override;

  void receive(int from, void* to, std::int64_t bytes);
  void send(int to, const void* from, std::int64_t bytes);
  // Memory for what comes in, kept by the group from one collective to the next.
  std::byte* scratch(std::int64_t bytes);
  void then(std::vector<const void*> inputs, void* output, std::int64_t count, DType dtype, ReduceOp op);
  void wait() override;

 private:
  struct Peer {
    int rank;
    bool receives;
  };

  template <typename Start>
  void in_pieces(void* data, std::int64_t bytes, Peer peer, Start&& start);
  std::vector<int> late_ranks() const;

  MpiProcessGroup* group_;
  std::string activity_;
  int tag_;
  std::vector<MPI_Request> requests_;
  std::vector<Peer> peers_;  // of each request
  std::vector<std::byte> scratch_;
  std::function<void()> finish_;
};

}  // namespace shoal::comm

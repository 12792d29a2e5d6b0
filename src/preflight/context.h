// What every check has at hand: the ranks of the job and their nodes, the time that is left, a way to gather.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "comm/mpi_process_group.h"
#include "core/timer.h"
#include "launch/mpi_session.h"
#include "preflight/guard.h"
#include "preflight/record.h"

namespace shoal::preflight {

class Context {
 public:
  // Collective over the job, with where this rank is in it. `guard` must outlive the context. Everything is over, one
  // way or the other, within `limit` and a few seconds.
  Context(const launch::Placement& placement, Guard& guard, std::chrono::milliseconds limit);

  int rank() const { return world_.rank(); }
  int size() const { return world_.size(); }
  const std::string& host_of(int rank) const { return world_.host_of(rank); }
  const std::string& host() const { return host_of(rank()); }
  std::vector<std::string> hosts() const;                               // of the ranks, in their order
  const std::vector<int>& first_ranks() const { return first_ranks_; }  // the lowest rank of each node, ascending
  int node_of(int rank) const { return nodes_[static_cast<std::size_t>(rank)]; }  // an index into first_ranks()
  int local_size() const { return local_size_; }

  std::chrono::milliseconds remaining() const;
  double seconds() const { return timer_.seconds(); }
  Guard& guard() { return *guard_; }
  // For collectives of its own; the time limit is that of the last begin().
  comm::MpiProcessGroup& world() { return world_; }
  // From here on time-outs say `activity`, and come when what is left of the time is over.
  void begin(const std::string& activity);

  // Collective over the job. Every rank's text, in rank order. Here and below comm::LateRanksError names who does not
  // come.
  std::vector<std::string> exchange(const std::string& activity, const std::string& mine);
  // Collective over the job. Every rank runs `body`, which must not communicate; what it throws becomes a record that
  // fails. The records of all, in rank order, with host and rank filled in.
  std::vector<Record> gather(const std::string& activity, const std::function<Record()>& body);
  // The same for a body that finds several things, or none.
  std::vector<Record> gather_all(const std::string& activity, const std::function<std::vector<Record>()>& body);

 private:
  Guard* guard_;
  std::chrono::milliseconds limit_;
  Timer timer_;
  comm::MpiProcessGroup world_;
  std::vector<int> nodes_, first_ranks_;
  int local_size_ = 1;
};

}  // namespace shoal::preflight

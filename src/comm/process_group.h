// Collective communication over a group of ranks, on memory of one device.
//
// A group lives as long as its owner keeps it; collectives of one group are called by all its ranks in the same
// order. Each returns a Work: the buffers must stay untouched until Work::wait() has returned. On the CPU wait()
// blocks; on a GPU it orders the stream of the caller after the collective and does not block the host, and the
// collective itself starts after what the caller has queued on its stream so far.
// Counts are elements of DType and may exceed 2^31. Failures, and a rank that does not come within the group's time
// limit, throw CommunicationError.
#pragma once

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "comm/collective_observer.h"
#include "shard/dtype.h"

namespace shoal::comm {

enum class ReduceOp { sum, max, min };

// What most of a group's data will be, for backends that can prepare for it.
enum class Traffic { mixed, gather, reduce };

struct GroupOptions {
  std::string name;  // in messages, descriptions and traces: "shard"
  Traffic traffic = Traffic::mixed;
};

class Work {
 public:
  virtual ~Work() = default;
  virtual void wait() = 0;
};

class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const char* backend() const = 0;  // "mpi", "nccl", "fake"

  // recv[r * count …] = rank r's send[0 … count). send may lie in recv at its own place (in place).
  virtual std::unique_ptr<Work> all_gather(const void* send, void* recv, std::int64_t count, DType dtype) = 0;
  // recv[0 … count) = reduction over ranks of send[rank * count …]; send holds size() * count elements. send may be
  // changed by the call; recv must not overlap it.
  virtual std::unique_ptr<Work> reduce_scatter(void* send, void* recv, std::int64_t count, DType dtype,
                                               ReduceOp op) = 0;
  virtual std::unique_ptr<Work> all_reduce(void* data, std::int64_t count, DType dtype, ReduceOp op) = 0;
  virtual std::unique_ptr<Work> broadcast(void* data, std::int64_t count, DType dtype, int root) = 0;
  // recv[r * count …] = rank r's send[rank() * count …]; both hold size() * count elements and do not overlap.
  virtual std::unique_ptr<Work> all_to_all(const void* send, void* recv, std::int64_t count, DType dtype) = 0;
  virtual void barrier() = 0;

  // Collective over this group, with the same `bytes` on all its ranks. Memory of the group's device that its
  // collectives move fastest (NCCL: registered as a symmetric window), aligned to 256 bytes, its content undefined. It
  // is given back when the last copy of the pointer goes, which must be before the group does.
  // There this group's collectives start on 16-byte boundaries and move a multiple of 16 bytes a rank; another call is
  // an InternalError before anything is sent. NCCL's kernels for windows give wrong results for other parts.
  virtual std::shared_ptr<void> allocate(std::int64_t bytes);

  // Collective over this group. Ranks of one color form a new group, ordered by their rank here; it has this group's
  // time limit and observer.
  virtual std::unique_ptr<ProcessGroup> split(int color, const GroupOptions& options = {}) = 0;

  // One line for people: "nccl 2.28.9, 2 ranks, windows, copy engines".
  virtual std::string describe() const;
  void set_name(std::string name) { name_ = std::move(name); }
  const std::string& name() const { return name_; }

  // From now on each collective of this group is reported once it is over: on a GPU by times of its stream, handed over
  // at a later call without waiting for it; on the CPU from the call to the end of Work::wait(). Null ends it, after
  // what is under way has been waited for and reported.
  virtual void set_observer(std::shared_ptr<CollectiveObserver> observer) { observer_ = std::move(observer); }
  const std::shared_ptr<CollectiveObserver>& observer() const { return observer_; }

  // The longest wait for the other ranks before CommunicationError.
  void set_timeout(std::chrono::milliseconds timeout) { timeout_ = timeout; }
  std::chrono::milliseconds timeout() const { return timeout_; }
  // What the group is doing, for the message of a time-out: "all-gather of unit 'h.3'". A plain label.
  void set_activity(std::string activity) { activity_ = std::move(activity); }
  const std::string& activity() const { return activity_; }

 protected:
  // What a group that came from split() has from its parent and its options.
  void inherit(const ProcessGroup& parent, const GroupOptions& options);
  // For allocate(): `memory` of `bytes`, which the group remembers while there is a copy of the pointer.
  std::shared_ptr<void> lend(std::shared_ptr<void> memory, std::int64_t bytes);
  // For collectives, which move `bytes` a rank from or to each of `buffers`: allocate()'s InternalError.
  void check_parts(const char* collective, std::int64_t bytes, std::initializer_list<const void*> buffers) const {
    if (!in_grains(bytes, buffers)) refuse_lent(collective, bytes, buffers);
  }

 private:
  struct Lent {
    std::weak_ptr<void> memory;
    std::uintptr_t begin, end;
  };
  static bool in_grains(std::int64_t bytes, std::initializer_list<const void*> buffers) {
    auto bits = static_cast<std::uintptr_t>(bytes);
    for (const void* buffer : buffers) bits |= reinterpret_cast<std::uintptr_t>(buffer);
    return bits % kGrain == 0 || bytes == 0;
  }
  void refuse_lent(const char* collective, std::int64_t bytes, std::initializer_list<const void*> buffers) const;

  static constexpr std::uintptr_t kGrain = 16;
  std::chrono::milliseconds timeout_ = std::chrono::minutes(10);
  std::string activity_, name_;
  std::shared_ptr<CollectiveObserver> observer_;
  std::vector<Lent> lent_;
};

// Collective over `group` (host memory). Every rank's bytes, in rank order; sizes may differ.
std::vector<std::string> all_gather_bytes(ProcessGroup& group, const std::string& mine);
// Collective over `group` (host memory). Rank `root`'s bytes on every rank.
std::string broadcast_bytes(ProcessGroup& group, const std::string& mine, int root = 0);
// Collective over `group` (host memory).
double all_reduce(ProcessGroup& group, double value, ReduceOp op);
std::int64_t all_reduce(ProcessGroup& group, std::int64_t value, ReduceOp op);

}  // namespace shoal::comm

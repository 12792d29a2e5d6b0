// Owner of one communicator of NCCL: made within a time limit, split, ended in good order or torn down.
#pragma once

#include <nccl.h>

#include <chrono>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/timer.h"

namespace shoal::comm {

struct CommunicatorConfig {
  std::string name;
  // Calls return at once and their result is polled for: what making a communicator within a time limit takes. NCCL
  // starts a thread for each such call, so those that carry the data are made blocking: there the call itself queues
  // the work and returns.
  bool nonblocking = true;
  bool copy_engines = false;  // move data without the GPU's multiprocessors where NCCL can
};

// How long to wait for the other ranks, and for what: goes into the message.
struct Patience {
  std::chrono::milliseconds limit;
  std::string activity;
};

// The orderly ends of communicators. One takes half a second, nearly all of it until a thread of NCCL's looks up, so
// they are under way beside each other; the destructor waits for those that are left.
class NcclEndings {
 public:
  // `name` is what NCCL has a pointer to.
  void add(ncclComm_t comm, bool nonblocking, std::shared_ptr<const std::string> name);

 private:
  std::vector<std::future<void>> under_way_;
};

class NcclCommunicator {
 public:
  // Collective over all `size` ranks, with the same `ids`: one, or several that share the work of bringing the ranks
  // together. On the current device. CommunicationError where it is not made within the limit.
  NcclCommunicator(std::span<ncclUniqueId> ids, int rank, int size, const CommunicatorConfig& config,
                   const Patience& patience);
  // Collective. NCCL waits for what is under way on a thread of its own, and the last of the communicators that were
  // split from one another waits for that. After a failure, or while an exception is on its way through, this tears
  // down what is there without the others.
  ~NcclCommunicator();
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  ncclComm_t get() const noexcept { return comm_; }
  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  bool nonblocking() const noexcept { return nonblocking_; }

  // Collective. Ranks of one color, ordered as here.
  std::unique_ptr<NcclCommunicator> split(int color, const CommunicatorConfig& config, const Patience& patience);

  // Waits until NCCL has taken a call that gave `code`, and throws CommunicationError where it failed or took longer
  // than the limit. `activity` is read where there is an error.
  void settle(ncclResult_t code, const char* call, std::chrono::milliseconds limit, const std::string& activity);
  // What to settle() for a call that says "success" where a nonblocking communicator has only begun: ncclCommSplit and
  // ncclCommWindowRegister of NCCL 2.28 do.
  ncclResult_t begun(ncclResult_t code) const noexcept {
    return code == ncclSuccess && nonblocking_ ? ncclInProgress : code;
  }
  // Ends what is under way without the others, within seconds; nothing else may be called afterwards.
  void abort() noexcept;
  bool failed() const noexcept { return failed_; }

 private:
  NcclCommunicator(ncclComm_t comm, std::shared_ptr<const std::string> name, bool nonblocking,
                   std::shared_ptr<NcclEndings> endings)
      : endings_(std::move(endings)), name_(std::move(name)), comm_(comm), nonblocking_(nonblocking) {}
  void learn_place();
  void check_patience(const Timer& timer, const char* call, std::chrono::milliseconds limit,
                      const std::string& activity);
  [[noreturn]] void throw_failed(ncclResult_t code, const char* call, const std::string& activity);

  std::shared_ptr<NcclEndings> endings_;     // of all that were split from one another
  std::shared_ptr<const std::string> name_;  // to which NCCL has a pointer
  ncclComm_t comm_ = nullptr;
  int rank_ = 0, size_ = 1;
  bool nonblocking_ = true, failed_ = false;
};

}  // namespace shoal::comm

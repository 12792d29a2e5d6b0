#include "comm/nccl_process_group.h"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <atomic>
#include <cstring>
#include <exception>
#include <thread>
#include <vector>

#include "core/check.h"
#include "core/logging.h"
#include "core/timer.h"
#include "core/unique_handle.h"

namespace shoal::comm {
namespace {

void check_cuda(cudaError_t code, const char* call) {
  SHOAL_CHECK(code == cudaSuccess, DeviceError, "CUDA: {} failed: {}", call, cudaGetErrorString(code));
}
#define SHOAL_CUDA_CALL(call) check_cuda((call), #call)

struct StreamTraits {
  using Handle = cudaStream_t;
  static Handle invalid() noexcept { return nullptr; }
  static void close(Handle stream) noexcept { cudaStreamDestroy(stream); }
};
struct EventTraits {
  using Handle = cudaEvent_t;
  static Handle invalid() noexcept { return nullptr; }
  static void close(Handle event) noexcept { cudaEventDestroy(event); }
};
using UniqueEvent = UniqueHandle<EventTraits>;

UniqueEvent make_event() {
  cudaEvent_t event = nullptr;
  SHOAL_CUDA_CALL(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return UniqueEvent(event);
}

ncclDataType_t nccl_type(DType dtype) {
  switch (dtype) {
    case DType::float64: return ncclFloat64;
    case DType::float32: return ncclFloat32;
    case DType::float16: return ncclFloat16;
    case DType::bfloat16: return ncclBfloat16;
    case DType::int64: return ncclInt64;
    case DType::int32: return ncclInt32;
    case DType::int8: return ncclInt8;
    case DType::uint8:
    case DType::boolean: return ncclUint8;
    case DType::int16: break;
  }
  throw CommunicationError("NCCL has no reduction or transfer of {}", name_of(dtype));
}

ncclRedOp_t nccl_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum: return ncclSum;
    case ReduceOp::max: return ncclMax;
    case ReduceOp::min: return ncclMin;
  }
  return ncclSum;
}

ncclConfig_t config() {
  ncclConfig_t c = NCCL_CONFIG_INITIALIZER;
  c.blocking = 0;  // a rank that never comes becomes an error after the time limit, not a hang
  return c;
}

class NcclProcessGroup final : public ProcessGroup {
 public:
  // Takes over `comm`, which may still be being made.
  NcclProcessGroup(ncclComm_t comm, int rank, int size, std::function<void*()> current_stream,
                   std::chrono::milliseconds limit)
      : comm_(comm), rank_(rank), size_(size), current_stream_(std::move(current_stream)) {
    set_timeout(limit);
    settle(ncclInProgress, "making the communicator");
    int least = 0, greatest = 0;
    SHOAL_CUDA_CALL(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    cudaStream_t stream = nullptr;
    SHOAL_CUDA_CALL(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest));
    stream_.reset(stream);
  }
  ~NcclProcessGroup() override {
    // After a failure the others may never come to an orderly end.
    if (std::uncaught_exceptions() > 0)
      ncclCommAbort(comm_);
    else
      ncclCommDestroy(comm_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  const char* backend() const override { return "nccl"; }

  std::unique_ptr<Work> all_gather(const void* send, void* recv, std::int64_t count, DType dtype) override {
    return queue("ncclAllGather", [&] {
      return ncclAllGather(send, recv, static_cast<std::size_t>(count), nccl_type(dtype), comm_, stream_.get());
    });
  }
  std::unique_ptr<Work> reduce_scatter(void* send, void* recv, std::int64_t count, DType dtype, ReduceOp op) override {
    return queue("ncclReduceScatter", [&] {
      return ncclReduceScatter(send, recv, static_cast<std::size_t>(count), nccl_type(dtype), nccl_op(op), comm_,
                               stream_.get());
    });
  }
  std::unique_ptr<Work> all_reduce(void* data, std::int64_t count, DType dtype, ReduceOp op) override {
    return queue("ncclAllReduce", [&] {
      return ncclAllReduce(data, data, static_cast<std::size_t>(count), nccl_type(dtype), nccl_op(op), comm_,
                           stream_.get());
    });
  }
  std::unique_ptr<Work> broadcast(void* data, std::int64_t count, DType dtype, int root) override {
    return queue("ncclBroadcast", [&] {
      return ncclBroadcast(data, data, static_cast<std::size_t>(count), nccl_type(dtype), root, comm_, stream_.get());
    });
  }
  std::unique_ptr<Work> all_to_all(const void* send, void* recv, std::int64_t count, DType dtype) override {
    return queue("ncclAlltoAll", [&] {
      return ncclAlltoAll(send, recv, static_cast<std::size_t>(count), nccl_type(dtype), comm_, stream_.get());
    });
  }
  void barrier() override {
    if (!token_) {
      SHOAL_CUDA_CALL(cudaMalloc(&token_, sizeof(int)));
      SHOAL_CUDA_CALL(cudaMemset(token_, 0, sizeof(int)));
    }
    all_reduce(token_, 1, DType::int32, ReduceOp::sum)->wait();
    SHOAL_CUDA_CALL(cudaStreamSynchronize(stream_.get()));
  }
  std::unique_ptr<ProcessGroup> split(int color, const GroupOptions& options = {}) override {
    ncclComm_t part = nullptr;
    ncclConfig_t c = config();
    settle(ncclCommSplit(comm_, color, rank_, &part, &c), "ncclCommSplit");
    // NCCL's own thread makes the communicator, and stores it here when it has begun.
    wait_for([&] { return std::atomic_ref(part).load() != nullptr; }, "ncclCommSplit");
    check(poll(part, "ncclCommSplit"), "ncclCommSplit");
    int part_rank = 0, part_size = 1;
    check(ncclCommUserRank(part, &part_rank), "ncclCommUserRank");
    check(ncclCommCount(part, &part_size), "ncclCommCount");
    auto group = std::make_unique<NcclProcessGroup>(part, part_rank, part_size, current_stream_, timeout());
    group->inherit(*this, options);
    return group;
  }

 private:
  class QueuedWork;

  cudaStream_t callers_stream() const { return static_cast<cudaStream_t>(current_stream_()); }

  void check(ncclResult_t code, const char* call) const {
    SHOAL_CHECK(code == ncclSuccess, CommunicationError, "NCCL: {} failed in {}: {} ({})", call,
                activity().empty() ? "a collective" : activity(), ncclGetErrorString(code), ncclGetLastError(comm_));
  }

  // Waits until a call that came back at once has been taken.
  void settle(ncclResult_t code, const char* call) const {
    if (code == ncclInProgress) code = poll(comm_, call);
    check(code, call);
  }

  ncclResult_t poll(ncclComm_t comm, const char* call) const {
    ncclResult_t state = ncclInProgress;
    wait_for(
        [&] {
          check(ncclCommGetAsyncError(comm, &state), call);
          return state != ncclInProgress;
        },
        call);
    return state;
  }

  template <typename Done>
  void wait_for(Done&& done, const char* call) const {
    const Timer timer;
    while (!done()) {
      SHOAL_CHECK(
          timer.seconds() * 1e3 < static_cast<double>(timeout().count()), CommunicationError,
          "NCCL: rank {} of {} waited {} s in {} ({}); some rank did not come; --collective-timeout sets the limit",
          rank_, size_, timeout().count() / 1000, call, activity());
      std::this_thread::yield();
    }
  }

  template <typename Call>
  std::unique_ptr<Work> queue(const char* name, Call&& call);

  ncclComm_t comm_;
  int rank_, size_;
  std::function<void*()> current_stream_;
  UniqueHandle<StreamTraits> stream_;
  std::vector<UniqueEvent> events_;  // free for the next collectives
  void* token_ = nullptr;            // of barrier(); freed with the device's context
};

class NcclProcessGroup::QueuedWork final : public Work {
 public:
  QueuedWork(NcclProcessGroup& group, UniqueEvent done) : group_(&group), done_(std::move(done)) {}
  ~QueuedWork() override { group_->events_.push_back(std::move(done_)); }
  void wait() override { SHOAL_CUDA_CALL(cudaStreamWaitEvent(group_->callers_stream(), done_.get())); }

 private:
  NcclProcessGroup* group_;
  UniqueEvent done_;
};

template <typename Call>
std::unique_ptr<Work> NcclProcessGroup::queue(const char* name, Call&& call) {
  if (events_.empty()) events_.push_back(make_event());
  UniqueEvent event = std::move(events_.back());
  events_.pop_back();
  // What the caller has queued so far made the input, or still reads the output's old content.
  SHOAL_CUDA_CALL(cudaEventRecord(event.get(), callers_stream()));
  SHOAL_CUDA_CALL(cudaStreamWaitEvent(stream_.get(), event.get()));
  settle(call(), name);
  SHOAL_CUDA_CALL(cudaEventRecord(event.get(), stream_.get()));
  return std::make_unique<QueuedWork>(*this, std::move(event));
}

void check_version() {
  int version = 0;
  if (ncclGetVersion(&version) == ncclSuccess && version / 100 != NCCL_VERSION_CODE / 100)
    log::warning("built with NCCL {}, running with {}: two libraries in one process are a common cause of hangs",
                 NCCL_VERSION_CODE, version);
}

}  // namespace

std::unique_ptr<ProcessGroup> make_nccl_group(ProcessGroup& control, int device,
                                              std::function<void*()> current_stream) {
  check_version();
  SHOAL_CUDA_CALL(cudaSetDevice(device));
  ncclUniqueId id{};
  if (control.rank() == 0) {
    const ncclResult_t made = ncclGetUniqueId(&id);
    SHOAL_CHECK(made == ncclSuccess, CommunicationError, "NCCL: ncclGetUniqueId failed: {}", ncclGetErrorString(made));
  }
  const std::string bytes = broadcast_bytes(control, std::string(reinterpret_cast<const char*>(&id), sizeof id));
  std::memcpy(&id, bytes.data(), sizeof id);
  control.barrier();  // everybody has the id before anybody blocks in NCCL, where MPI makes no progress
  ncclComm_t comm = nullptr;
  ncclConfig_t c = config();
  const ncclResult_t code = ncclCommInitRankConfig(&comm, control.size(), id, control.rank(), &c);
  SHOAL_CHECK(code == ncclSuccess || code == ncclInProgress, CommunicationError,
              "NCCL: ncclCommInitRankConfig failed: {}", ncclGetErrorString(code));
  return std::make_unique<NcclProcessGroup>(comm, control.rank(), control.size(), std::move(current_stream),
                                            control.timeout());
}

}  // namespace shoal::comm

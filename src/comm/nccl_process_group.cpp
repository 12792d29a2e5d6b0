#include "comm/nccl_process_group.h"

#include <exception>
#include <span>
#include <thread>

#include "comm/nccl_calls.h"
#include "comm/nccl_communicator.h"
#include "comm/nccl_flights.h"
#include "comm/nccl_memory.h"
#include "comm/nccl_preflight.h"
#include "comm/nccl_rendezvous.h"
#include "core/error.h"
#include "core/logging.h"
#include "core/timer.h"
#include "core/watch.h"
#include "launch/first_failure.h"

namespace shoal::comm {
namespace {

// The main thread may be inside a driver that waits forever.
void end_process(const std::string& trouble) { launch::leave_now(static_cast<int>(ExitCode::communication), trouble); }

// Rare enough to cost nothing, often enough to end a job within seconds of a rank's death.
constexpr std::chrono::milliseconds kWatchPeriod{250}, kNeighbourPatience{3000};

// What all groups of one job share.
struct NcclJob {
  NcclJob(int its_device, std::function<void*()> stream, NcclOptions its_options, std::span<const RankCard> cards,
          int rank)
      : device(its_device),
        current_stream(std::move(stream)),
        options(std::move(its_options)),
        neighbours(cards, rank, kNeighbourPatience),
        watch(kWatchPeriod, options.on_trouble ? options.on_trouble : end_process) {
    watch.add(neighbours);
  }

  // The main thread has met an error and tells it itself. The watch asks CUDA nothing more, which might hold it, and
  // with it those who want to leave it, for as long as a communicator is being aborted.
  void leave_gpu_alone() {
    watch.clear();
    watch.add(neighbours);
  }

  int device;
  std::function<void*()> current_stream;
  NcclOptions options;
  NeighbourProcesses neighbours;
  Watch watch;
};

class NcclProcessGroup final : public ProcessGroup {
 public:
  NcclProcessGroup(std::shared_ptr<NcclJob> job, std::shared_ptr<NcclCommunicator> comm, Traffic traffic);
  ~NcclProcessGroup() override;

  int rank() const override { return comm_->rank(); }
  int size() const override { return comm_->size(); }
  const char* backend() const override { return "nccl"; }

  std::unique_ptr<Work> all_gather(const void* send, void* recv, std::int64_t count, DType dtype) override {
    const ncclDataType_t type = transfer_type(dtype);
    return queue("all_gather", count * size_of(dtype), {send, recv}, size(), [&] {
      return ncclAllGather(send, recv, static_cast<std::size_t>(count), type, raw(), stream_.get());
    });
  }
  std::unique_ptr<Work> reduce_scatter(void* send, void* recv, std::int64_t count, DType dtype, ReduceOp op) override {
    const ncclDataType_t type = reduction_type(dtype);
    return queue("reduce_scatter", count * size_of(dtype), {send, recv}, size(), [&] {
      return ncclReduceScatter(send, recv, static_cast<std::size_t>(count), type, nccl_op(op), raw(), stream_.get());
    });
  }
  std::unique_ptr<Work> all_reduce(void* data, std::int64_t count, DType dtype, ReduceOp op) override {
    const ncclDataType_t type = reduction_type(dtype);
    return queue("all_reduce", count * size_of(dtype), {data}, 1, [&] {
      return ncclAllReduce(data, data, static_cast<std::size_t>(count), type, nccl_op(op), raw(), stream_.get());
    });
  }
  std::unique_ptr<Work> broadcast(void* data, std::int64_t count, DType dtype, int root) override {
    const ncclDataType_t type = transfer_type(dtype);
    return queue("broadcast", count * size_of(dtype), {data}, 1, [&] {
      return ncclBroadcast(data, data, static_cast<std::size_t>(count), type, root, raw(), stream_.get());
    });
  }
  std::unique_ptr<Work> all_to_all(const void* send, void* recv, std::int64_t count, DType dtype) override {
    const ncclDataType_t type = transfer_type(dtype);
    return queue("all_to_all", count * size_of(dtype), {send, recv}, size(),
                 [&] { return ncclAlltoAll(send, recv, static_cast<std::size_t>(count), type, raw(), stream_.get()); });
  }
  void barrier() override { all_true(true); }
  std::shared_ptr<void> allocate(std::int64_t bytes) override;
  std::unique_ptr<ProcessGroup> split(int color, const GroupOptions& options = {}) override;
  std::string describe() const override;
  void set_observer(std::shared_ptr<CollectiveObserver> observer) override;

 private:
  class QueuedWork;

  ncclComm_t raw() const { return comm_->get(); }
  cudaStream_t callers_stream() const { return static_cast<cudaStream_t>(job_->current_stream()); }
  bool takes_windows() const;
  bool takes_copy_engines() const;
  // Collective. Whether `mine` is true on all ranks; all have come when it returns.
  bool all_true(bool mine);
  void wait_on_host(cudaEvent_t event);

  // Of `parts` times `bytes`, all of which each of `buffers` has.
  template <typename Call>
  std::unique_ptr<Work> queue(const char* name, std::int64_t bytes, std::initializer_list<const void*> buffers,
                              int parts, Call&& call);

  std::shared_ptr<NcclJob> job_;
  std::shared_ptr<NcclCommunicator> comm_;
  Traffic traffic_;
  bool windows_refused_ = false;
  UniqueStream stream_;
  NcclFlights flights_;
  UniqueDeviceMemory vote_;  // of all_true()
};

bool copy_engines_for(const NcclOptions& options, Traffic traffic) {
  switch (traffic) {
    case Traffic::mixed: return false;
    case Traffic::gather: return options.copy_engines && options.windows;
    case Traffic::reduce: return options.copy_engines && options.reduce_windows;
  }
  return false;
}

class NcclProcessGroup::QueuedWork final : public Work {
 public:
  QueuedWork(NcclProcessGroup& group, std::shared_ptr<NcclFlight> flight)
      : group_(&group), flight_(std::move(flight)) {}
  void wait() override { SHOAL_CUDA_CALL(cudaStreamWaitEvent(group_->callers_stream(), flight_->done.get())); }
  void wait_on_host() { group_->wait_on_host(flight_->done.get()); }

 private:
  NcclProcessGroup* group_;
  std::shared_ptr<NcclFlight> flight_;
};

NcclProcessGroup::NcclProcessGroup(std::shared_ptr<NcclJob> job, std::shared_ptr<NcclCommunicator> comm,
                                   Traffic traffic)
    : job_(std::move(job)),
      comm_(std::move(comm)),
      traffic_(traffic),
      stream_(make_urgent_stream()),
      flights_(comm_, job_->device) {
  job_->watch.add(flights_);
}

NcclProcessGroup::~NcclProcessGroup() {
  const bool orderly = !comm_->failed() && std::uncaught_exceptions() == 0;
  if (!orderly) job_->leave_gpu_alone();
  job_->watch.remove(flights_);
  if (orderly) return;
  comm_->abort();
  // What a collective that never ends holds is left to the end of the process: CUDA may wait for it in any call.
  vote_.release();
  stream_.release();
  flights_.abandon();
}

template <typename Call>
std::unique_ptr<Work> NcclProcessGroup::queue(const char* name, std::int64_t bytes,
                                              std::initializer_list<const void*> buffers, int parts, Call&& call) {
  check_parts(name, bytes, buffers);
  std::shared_ptr<NcclFlight> flight = flights_.begin(*this, name, parts * bytes, callers_stream(), stream_.get());
  try {
    comm_->settle(call(), name, timeout(), activity());
  } catch (...) {
    job_->watch.remove(flights_);  // this thread tells what went wrong
    throw;
  }
  flights_.queued(*flight, stream_.get());
  return std::make_unique<QueuedWork>(*this, std::move(flight));
}

void NcclProcessGroup::wait_on_host(cudaEvent_t event) {
  const Timer timer;
  for (;;) {
    const cudaError_t state = cudaEventQuery(event);
    if (state == cudaSuccess) return;
    if (state != cudaErrorNotReady) check_cuda(state, "a collective on the GPU");
    if (timer.seconds() * 1e3 > static_cast<double>(timeout().count())) {
      job_->leave_gpu_alone();
      comm_->abort();
      throw CommunicationError(
          "rank {} of {} ranks waited {:g} s in {}; some rank did not come; --collective-timeout sets the limit",
          rank(), size(), static_cast<double>(timeout().count()) / 1e3,
          activity().empty() ? "a collective" : activity());
    }
    std::this_thread::yield();
  }
}

bool NcclProcessGroup::all_true(bool mine) {
  const std::int32_t vote = mine ? 1 : 0;
  std::int32_t agreed = 0;
  if (!vote_) {
    void* memory = nullptr;
    SHOAL_CUDA_CALL(cudaMalloc(&memory, sizeof vote));
    vote_.reset(memory);
  }
  SHOAL_CUDA_CALL(cudaMemcpyAsync(vote_.get(), &vote, sizeof vote, cudaMemcpyHostToDevice, callers_stream()));
  const std::unique_ptr<Work> work = all_reduce(vote_.get(), 1, DType::int32, ReduceOp::min);
  static_cast<QueuedWork&>(*work).wait_on_host();
  SHOAL_CUDA_CALL(cudaMemcpy(&agreed, vote_.get(), sizeof agreed, cudaMemcpyDeviceToHost));
  return agreed == 1;
}

bool NcclProcessGroup::takes_windows() const {
  const NcclOptions& options = job_->options;
  const bool wanted = traffic_ == Traffic::reduce ? options.reduce_windows : options.windows;
  return wanted && !windows_refused_ && size() > 1;  // alone, nothing leaves the GPU
}

bool NcclProcessGroup::takes_copy_engines() const {
  return takes_windows() && copy_engines_for(job_->options, traffic_);
}

std::shared_ptr<void> NcclProcessGroup::allocate(std::int64_t bytes) {
  if (!takes_windows()) return lend(allocate_plain(bytes), bytes);
  const Patience patience{timeout(), "the registration of memory"};
  if (auto memory = allocate_window(comm_, bytes, patience, [this](bool mine) { return all_true(mine); }))
    return lend(std::move(memory), bytes);
  windows_refused_ = true;
  log::info("NCCL has no symmetric memory for the group '{}' here: plain memory instead, which is slower", name());
  return lend(allocate_plain(bytes), bytes);
}

std::unique_ptr<ProcessGroup> NcclProcessGroup::split(int color, const GroupOptions& options) {
  const CommunicatorConfig config{.name = options.name,
                                  .nonblocking = !job_->options.blocking_calls,
                                  .copy_engines = copy_engines_for(job_->options, options.traffic)};
  const Patience patience{timeout(), fmt::format("making the group '{}'", options.name)};
  auto group = std::make_unique<NcclProcessGroup>(job_, comm_->split(color, config, patience), options.traffic);
  group->inherit(*this, options);
  return group;
}

std::string NcclProcessGroup::describe() const {
  int version = 0;
  SHOAL_NCCL_CALL(ncclGetVersion(&version));
  return fmt::format("nccl {}, {} rank{}{}{}", nccl_version_text(version), size(), size() == 1 ? "" : "s",
                     takes_windows() ? ", windows" : "", takes_copy_engines() ? ", copy engines" : "");
}

void NcclProcessGroup::set_observer(std::shared_ptr<CollectiveObserver> observer) {
  flights_.observe(observer, *this, stream_.get());
  ProcessGroup::set_observer(std::move(observer));
}

}  // namespace

std::unique_ptr<ProcessGroup> make_nccl_group(ProcessGroup& control, int device, std::function<void*()> current_stream,
                                              NcclOptions options) {
  SHOAL_CUDA_CALL(cudaSetDevice(device));
  const std::vector<RankCard> cards = exchange_cards(control, device);
  std::shared_ptr<NcclCommunicator> comm = meet(control, cards, options.ranks_per_root);
  auto job = std::make_shared<NcclJob>(device, std::move(current_stream), std::move(options), cards, control.rank());
  auto group = std::make_unique<NcclProcessGroup>(std::move(job), std::move(comm), Traffic::mixed);
  group->set_timeout(control.timeout());
  group->set_name("world");
  return group;
}

}  // namespace shoal::comm

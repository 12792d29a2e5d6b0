#include "comm/nccl_communicator.h"

#include <atomic>
#include <exception>
#include <future>
#include <system_error>
#include <thread>
#include <utility>

#include "comm/nccl_calls.h"
#include "core/error.h"
#include "core/logging.h"
#include "core/timer.h"

namespace shoal::comm {
namespace {

using namespace std::chrono_literals;

// `name` must live as long as the communicator.
ncclConfig_t config_of(const CommunicatorConfig& config, const std::string& name) {
  ncclConfig_t c = NCCL_CONFIG_INITIALIZER;
  c.blocking = config.nonblocking ? 0 : 1;
  c.commName = name.empty() ? nullptr : name.c_str();
  if (config.copy_engines) c.CTAPolicy = NCCL_CTA_POLICY_ZERO;
  return c;
}

void end_orderly(ncclComm_t comm, bool nonblocking) {
  if (nonblocking) {
    // Destroying would return before the end, and the process might end first.
    ncclResult_t state = ncclCommFinalize(comm);
    while (state == ncclInProgress && ncclCommGetAsyncError(comm, &state) == ncclSuccess)
      std::this_thread::sleep_for(1ms);
  }
  ncclCommDestroy(comm);
}

}  // namespace

void NcclEndings::add(ncclComm_t comm, bool nonblocking, std::shared_ptr<const std::string> name) {
  std::erase_if(under_way_, [](const std::future<void>& end) { return end.wait_for(0s) == std::future_status::ready; });
  const auto end = [comm, nonblocking, name = std::move(name)] { end_orderly(comm, nonblocking); };
  try {
    under_way_.push_back(std::async(std::launch::async, end));
  } catch (const std::system_error&) {  // no more threads
    end();
  }
}

NcclCommunicator::NcclCommunicator(std::span<ncclUniqueId> ids, int rank, int size, const CommunicatorConfig& config,
                                   const Patience& patience)
    : endings_(std::make_shared<NcclEndings>()),
      name_(std::make_shared<const std::string>(config.name)),
      rank_(rank),
      size_(size),
      nonblocking_(config.nonblocking) {
  ncclConfig_t c = config_of(config, *name_);
  const bool one_root = ids.size() == 1;
  const char* call = one_root ? "ncclCommInitRankConfig" : "ncclCommInitRankScalable";
  const ncclResult_t code =
      one_root ? ncclCommInitRankConfig(&comm_, size, ids[0], rank, &c)
               : ncclCommInitRankScalable(&comm_, size, rank, static_cast<int>(ids.size()), ids.data(), &c);
  if (!comm_) check_nccl(code, call);
  try {
    settle(code, call, patience.limit, patience.activity);
  } catch (...) {
    abort();  // no destructor runs for an object that was not made
    throw;
  }
}

NcclCommunicator::~NcclCommunicator() {
  if (!comm_) return;
  if (failed_ || std::uncaught_exceptions() > 0)
    abort();  // the others may never come to an orderly end
  else
    endings_->add(comm_, nonblocking_, name_);
}

// Kernels of NCCL's look at a flag, but what its copy engines wait for knows of none, and ncclCommAbort() waits for
// both. So it has a thread and some seconds.
void NcclCommunicator::abort() noexcept {
  constexpr std::chrono::seconds kPatience{5};
  failed_ = true;
  ncclComm_t comm = std::exchange(comm_, nullptr);
  if (!comm) return;
  try {
    std::packaged_task<void()> task([comm] { ncclCommAbort(comm); });
    const std::future<void> ended = task.get_future();
    std::thread(std::move(task)).detach();
    ended.wait_for(kPatience);
  } catch (const std::exception& error) {
    log::warning("NCCL: a communicator was left as it is: {}", error.what());
  }
}

std::unique_ptr<NcclCommunicator> NcclCommunicator::split(int color, const CommunicatorConfig& config,
                                                          const Patience& patience) {
  auto name = std::make_shared<const std::string>(config.name);
  ncclConfig_t c = config_of(config, *name);
  ncclComm_t part = nullptr;
  const Timer timer;
  settle(begun(ncclCommSplit(comm_, color, rank_, &part, &c)), "ncclCommSplit", patience.limit, patience.activity);
  // A thread of NCCL's stores the new one.
  while (!std::atomic_ref(part).load()) {
    check_patience(timer, "ncclCommSplit", patience.limit, patience.activity);
    std::this_thread::yield();
  }
  std::unique_ptr<NcclCommunicator> made(new NcclCommunicator(part, std::move(name), config.nonblocking, endings_));
  made->settle(made->begun(ncclSuccess), "ncclCommSplit", patience.limit, patience.activity);
  made->learn_place();
  return made;
}

void NcclCommunicator::learn_place() {
  SHOAL_NCCL_CALL(ncclCommUserRank(comm_, &rank_));
  SHOAL_NCCL_CALL(ncclCommCount(comm_, &size_));
}

void NcclCommunicator::settle(ncclResult_t code, const char* call, std::chrono::milliseconds limit,
                              const std::string& activity) {
  const Timer timer;
  for (unsigned spins = 1; code == ncclInProgress; ++spins) {
    const ncclResult_t asked = ncclCommGetAsyncError(comm_, &code);
    if (asked != ncclSuccess) code = asked;
    if (code != ncclInProgress || spins % 64 != 0) continue;
    check_patience(timer, call, limit, activity);
    std::this_thread::yield();
  }
  if (code != ncclSuccess) throw_failed(code, call, activity);
}

void NcclCommunicator::check_patience(const Timer& timer, const char* call, std::chrono::milliseconds limit,
                                      const std::string& activity) {
  if (timer.seconds() * 1e3 <= static_cast<double>(limit.count())) return;
  failed_ = true;
  throw CommunicationError(
      "NCCL: rank {} of {} waited {:g} s for {} in {}; some rank did not come; --collective-timeout sets the limit",
      rank_, size_, static_cast<double>(limit.count()) / 1e3, call, activity.empty() ? "a collective" : activity);
}

void NcclCommunicator::throw_failed(ncclResult_t code, const char* call, const std::string& activity) {
  failed_ = true;
  throw CommunicationError("NCCL: {} failed on rank {} of {} in {}: {} ({})", call, rank_, size_,
                           activity.empty() ? "a collective" : activity, ncclGetErrorString(code),
                           ncclGetLastError(comm_));
}

}  // namespace shoal::comm

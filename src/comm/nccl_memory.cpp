#include "comm/nccl_memory.h"

#include <algorithm>
#include <atomic>
#include <exception>

#include "comm/nccl_calls.h"
#include "comm/nccl_process_group.h"
#include "core/check.h"

namespace shoal::comm {
namespace {

std::atomic<std::int64_t> g_allocated{0};

struct NcclMemoryTraits {
  using Handle = void*;
  static Handle invalid() noexcept { return nullptr; }
  static void close(Handle memory) noexcept { ncclMemFree(memory); }
};
using UniqueNcclMemory = UniqueHandle<NcclMemoryTraits>;

// Registered memory, given back in the order that NCCL wants.
class Window {
 public:
  Window(std::shared_ptr<NcclCommunicator> comm, UniqueNcclMemory memory, std::int64_t bytes)
      : comm_(std::move(comm)), memory_(std::move(memory)), bytes_(bytes) {
    g_allocated += bytes_;
  }
  ~Window() {
    g_allocated -= bytes_;
    if (comm_->failed() || std::uncaught_exceptions() > 0) {
      memory_.release();  // a kernel that waits for a lost rank may never let go of it; the process is about to end
      return;
    }
    cudaDeviceSynchronize();  // unlike cudaFree(), NCCL's calls do not wait for the work that uses the memory
    if (window_) ncclCommWindowDeregister(comm_->get(), window_);
  }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  // Collective. False where this rank cannot.
  bool enter(const Patience& patience) {
    const ncclResult_t code = ncclCommWindowRegister(comm_->get(), memory_.get(), static_cast<std::size_t>(bytes_),
                                                     &window_, NCCL_WIN_COLL_SYMMETRIC);
    if (code != ncclSuccess && code != ncclInProgress) return false;
    comm_->settle(comm_->begun(code), "ncclCommWindowRegister", patience.limit, patience.activity);
    return window_ != nullptr;  // stays null where the GPUs cannot reach each other's memory
  }
  void* data() const { return memory_.get(); }

 private:
  std::shared_ptr<NcclCommunicator> comm_;
  UniqueNcclMemory memory_;
  std::int64_t bytes_;
  ncclWindow_t window_ = nullptr;
};

}  // namespace

std::int64_t allocated_bytes() { return g_allocated; }

std::shared_ptr<void> allocate_window(const std::shared_ptr<NcclCommunicator>& comm, std::int64_t bytes,
                                      const Patience& patience, const std::function<bool(bool)>& all_true) {
  constexpr std::int64_t kPage = 2 << 20;  // what NCCL's memory comes in
  const std::int64_t size = (std::max<std::int64_t>(bytes, 1) + kPage - 1) / kPage * kPage;
  void* data = nullptr;
  const bool there = ncclMemAlloc(&data, static_cast<std::size_t>(size)) == ncclSuccess && data != nullptr;
  UniqueNcclMemory memory(there ? data : nullptr);
  if (!there) cudaGetLastError();  // not to be met by the next launch
  if (!all_true(there)) return nullptr;
  auto window = std::make_shared<Window>(comm, std::move(memory), size);
  if (!all_true(window->enter(patience))) return nullptr;
  return {window, window->data()};
}

std::shared_ptr<void> allocate_plain(std::int64_t bytes) {
  void* data = nullptr;
  const std::int64_t size = std::max<std::int64_t>(bytes, 1);
  const cudaError_t code = cudaMalloc(&data, static_cast<std::size_t>(size));
  if (code != cudaSuccess) {
    cudaGetLastError();
    std::size_t free = 0, total = 0;
    cudaMemGetInfo(&free, &total);
    throw DeviceError("out of GPU memory: {} bytes for communication, {} of {} are free ({})", bytes, free, total,
                      cudaGetErrorString(code));
  }
  g_allocated += size;
  return {data, [size](void* memory) {
            g_allocated -= size;
            // That waits for all that is on the GPU, where a collective of a lost rank may never end.
            if (std::uncaught_exceptions() == 0) cudaFree(memory);
          }};
}

}  // namespace shoal::comm

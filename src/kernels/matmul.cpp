#include "kernels/matmul.h"

#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "core/check.h"
#include "kernels/matmul_problem.h"

namespace shoal::kernels {
namespace {

constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;  // what NVIDIA advises for Hopper
constexpr double kSecondsForChoice = 0.25;                      // then cuBLASLt's first guess is taken for what is new

struct State {
  std::mutex mutex;
  std::map<int, cublasLtHandle_t> handles;  // by device
  std::map<std::pair<int, cudaStream_t>, void*> workspaces;
  std::map<MatmulKey, std::optional<cublasLtMatmulAlgo_t>> choices;
  double seconds_left = kSecondsForChoice;
};

// Lives as long as the process: the driver may be gone before objects with static lifetime are.
State& state() {
  static State& only = *new State;
  return only;
}

cublasLtHandle_t handle_for(State& all, int device, const Matmul& product) {
  cublasLtHandle_t& handle = all.handles[device];
  if (handle == nullptr) check_cublas(cublasLtCreate(&handle), "cublasLtCreate", product);
  return handle;
}

void* workspace_for(State& all, int device, cudaStream_t stream) {
  void*& workspace = all.workspaces[{device, stream}];
  if (workspace == nullptr) check_cuda(cudaMalloc(&workspace, kWorkspaceBytes), "cudaMalloc of cuBLASLt's workspace");
  return workspace;
}

int current_device() {
  int device = 0;
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  return device;
}

}  // namespace

bool try_matmul(const Matmul& product, Stream stream) {
  SHOAL_ASSERT(product.m > 0 && product.n > 0 && product.k > 0);
  const int device = current_device();
  MatmulQueue queue{.workspace_bytes = kWorkspaceBytes, .stream = static_cast<cudaStream_t>(stream)};
  std::optional<cublasLtMatmulAlgo_t> algorithm;
  {
    State& all = state();
    const std::scoped_lock lock(all.mutex);
    queue.handle = handle_for(all, device, product);
    queue.workspace = workspace_for(all, device, queue.stream);
    const MatmulKey key = key_of(product, device);
    auto known = all.choices.find(key);
    if (known == all.choices.end())
      known = all.choices.emplace(key, choose_algorithm(product, queue, all.seconds_left)).first;
    algorithm = known->second;
  }
  if (!algorithm) return false;
  check_cublas(MatmulProblem(product).run(queue, *algorithm), "cublasLtMatmul", product);
  return true;
}

void matmul(const Matmul& product, Stream stream) {
  if (!try_matmul(product, stream))
    check_cublas(CUBLAS_STATUS_NOT_SUPPORTED, "cublasLtMatmulAlgoGetHeuristic", product);
}

double seconds_spent_on_choice() {
  State& all = state();
  const std::scoped_lock lock(all.mutex);
  return kSecondsForChoice - all.seconds_left;
}

}  // namespace shoal::kernels

#include <algorithm>
#include <limits>

#include "core/unique_handle.h"
#include "kernels/matmul_problem.h"

namespace shoal::kernels {
namespace {

constexpr int kCandidates = 6, kTimedRuns = 2;
// A later candidate must be faster than the ones before by more than the noise of a measurement.
constexpr float kWorthwhile = 0.99F;

struct EventTraits {
  using Handle = cudaEvent_t;
  static Handle invalid() noexcept { return nullptr; }
  static void close(Handle event) noexcept { cudaEventDestroy(event); }
};
using Event = UniqueHandle<EventTraits>;

Event record_event(cudaStream_t stream) {
  cudaEvent_t event = nullptr;
  check_cuda(cudaEventCreate(&event), "cudaEventCreate");
  Event owner(event);
  check_cuda(cudaEventRecord(event, stream), "cudaEventRecord");
  return owner;
}

float milliseconds_between(const Event& start, const Event& stop) {
  float milliseconds = 0;
  check_cuda(cudaEventSynchronize(stop.get()), "cudaEventSynchronize");
  check_cuda(cudaEventElapsedTime(&milliseconds, start.get(), stop.get()), "cudaEventElapsedTime");
  return milliseconds;
}

// Where a product adds to its own output, trials need another place to write to.
class TrialOutput {
 public:
  TrialOutput(const Matmul& product, cudaStream_t stream) : stream_(stream) {
    if (product.beta == 0 || product.c != product.d) return;
    needed_ = true;
    const auto bytes = static_cast<std::size_t>(product.m * product.d_stride * size_of(product.output));
    if (cudaMallocAsync(&memory_, bytes, stream) == cudaSuccess) return;
    memory_ = nullptr;
    cudaGetLastError();  // a full device is no error here: nothing is tried then
  }
  TrialOutput(const TrialOutput&) = delete;
  TrialOutput& operator=(const TrialOutput&) = delete;
  ~TrialOutput() {
    if (memory_ != nullptr) cudaFreeAsync(memory_, stream_);
  }
  bool is_missing() const { return needed_ && memory_ == nullptr; }
  void* or_else(void* output) const { return memory_ != nullptr ? memory_ : output; }

 private:
  cudaStream_t stream_;
  bool needed_ = false;
  void* memory_ = nullptr;
};

// The best of kTimedRuns after one that loads the kernel; infinite where the algorithm does not run after all.
float milliseconds_of(MatmulProblem& problem, const MatmulQueue& queue, const cublasLtMatmulAlgo_t& algorithm) {
  float best = std::numeric_limits<float>::infinity();
  if (problem.run(queue, algorithm) != CUBLAS_STATUS_SUCCESS) return best;
  Event events[kTimedRuns + 1];
  events[0] = record_event(queue.stream);
  for (int run = 0; run < kTimedRuns; ++run) {
    if (problem.run(queue, algorithm) != CUBLAS_STATUS_SUCCESS) return best;
    events[run + 1] = record_event(queue.stream);
  }
  for (int run = 0; run < kTimedRuns; ++run) best = std::min(best, milliseconds_between(events[run], events[run + 1]));
  return best;
}

std::optional<cublasLtMatmulAlgo_t> fastest(MatmulProblem& problem, const MatmulQueue& queue,
                                            const std::vector<cublasLtMatmulAlgo_t>& algorithms) {
  std::optional<cublasLtMatmulAlgo_t> chosen;
  float best = std::numeric_limits<float>::infinity();
  for (const cublasLtMatmulAlgo_t& algorithm : algorithms) {
    const float milliseconds = milliseconds_of(problem, queue, algorithm);
    if (milliseconds >= best * kWorthwhile) continue;
    best = milliseconds;
    chosen = algorithm;
  }
  return chosen;
}

}  // namespace

std::optional<cublasLtMatmulAlgo_t> choose_algorithm(const Matmul& product, const MatmulQueue& queue,
                                                     double& seconds_left) {
  const bool try_out = !product.deterministic && seconds_left > 0;
  MatmulProblem problem(product);
  const std::vector<cublasLtMatmulAlgo_t> algorithms = problem.algorithms(queue, try_out ? kCandidates : 1);
  if (algorithms.empty()) return std::nullopt;
  if (algorithms.size() == 1) return algorithms.front();
  const TrialOutput output(product, queue.stream);
  if (output.is_missing()) return algorithms.front();
  Matmul trial = product;
  trial.d = output.or_else(product.d);
  MatmulProblem trial_problem(trial);
  const Event start = record_event(queue.stream);
  const auto chosen = fastest(trial_problem, queue, algorithms);
  seconds_left -= milliseconds_between(start, record_event(queue.stream)) / 1e3;
  return chosen ? chosen : algorithms.front();
}

}  // namespace shoal::kernels

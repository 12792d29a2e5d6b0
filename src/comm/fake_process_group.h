// Ranks as threads of one process: what unit tests use in the place of MPI, under sanitizers too.
//   FakeWorld world(4);
//   world.run([](ProcessGroup& group) { … });   // on four threads; the first exception of a rank is rethrown
#pragma once

#include <functional>
#include <memory>

#include "comm/process_group.h"

namespace shoal::comm {

class FakeMeeting;  // where the threads of one group meet

class FakeProcessGroup final : public ProcessGroup {
 public:
  FakeProcessGroup(std::shared_ptr<FakeMeeting> meeting, int rank);
  int rank() const override { return rank_; }
  int size() const override;
  const char* backend() const override { return "fake"; }
  std::unique_ptr<Work> all_gather(const void* send, void* recv, std::int64_t count, DType dtype) override;
  std::unique_ptr<Work> reduce_scatter(void* send, void* recv, std::int64_t count, DType dtype, ReduceOp op) override;
  std::unique_ptr<Work> all_reduce(void* data, std::int64_t count, DType dtype, ReduceOp op) override;
  std::unique_ptr<Work> broadcast(void* data, std::int64_t count, DType dtype, int root) override;
  std::unique_ptr<Work> all_to_all(const void* send, void* recv, std::int64_t count, DType dtype) override;
  void barrier() override;
  std::unique_ptr<ProcessGroup> split(int color, const GroupOptions& options = {}) override;

 private:
  std::shared_ptr<FakeMeeting> meeting_;
  int rank_;
};

class FakeWorld {
 public:
  explicit FakeWorld(int size);
  ~FakeWorld();
  // Runs `body` on one thread a rank and waits for all.
  void run(const std::function<void(ProcessGroup&)>& body);

 private:
  int size_;
};

}  // namespace shoal::comm

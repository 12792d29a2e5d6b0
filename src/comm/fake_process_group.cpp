#include "comm/fake_process_group.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <thread>

#include "comm/done_work.h"
#include "comm/local_reduce.h"
#include "comm/observed_work.h"
#include "core/check.h"

namespace shoal::comm {

// What a rank brings to a collective.
struct FakeTicket {
  std::string call;  // name and geometry: equal on all ranks
  const void* data = nullptr;
  int color = 0;
};

class FakeMeeting {
 public:
  explicit FakeMeeting(int size) : tickets_(static_cast<std::size_t>(size)) {}
  int size() const { return static_cast<int>(tickets_.size()); }
  const FakeTicket& ticket(int rank) const { return tickets_[static_cast<std::size_t>(rank)]; }

  // All ranks come with their ticket, `act` runs on each while all tickets lie open, and all leave together.
  template <typename Act>
  void meet(const ProcessGroup& group, FakeTicket ticket, Act&& act) {
    tickets_[static_cast<std::size_t>(group.rank())] = std::move(ticket);
    wait_for_all(group);
    const bool agree =
        std::all_of(tickets_.begin(), tickets_.end(), [&](const FakeTicket& t) { return t.call == tickets_[0].call; });
    const std::string first = tickets_[0].call, last = tickets_.back().call;
    if (agree) act();
    wait_for_all(group);
    SHOAL_CHECK(agree, CommunicationError, "ranks are in different collectives: {} and {}", first, last);
  }

  std::shared_ptr<FakeMeeting> child(int color, int size, std::uint64_t serial) {
    const std::lock_guard lock(mutex_);
    auto& slot = children_[{serial, color}];
    if (!slot) slot = std::make_shared<FakeMeeting>(size);
    return slot;
  }
  std::uint64_t serial() const { return generation_; }

 private:
  void wait_for_all(const ProcessGroup& group) {
    std::unique_lock lock(mutex_);
    const std::uint64_t mine = generation_;
    if (++arrived_ == size()) {
      arrived_ = 0;
      ++generation_;
      all_here_.notify_all();
      return;
    }
    if (!all_here_.wait_for(lock, group.timeout(), [&] { return generation_ != mine; })) {
      --arrived_;
      throw CommunicationError("rank {} of {} ranks waited {} ms in {}; some rank did not come", group.rank(), size(),
                               group.timeout().count(), group.activity().empty() ? "a collective" : group.activity());
    }
  }

  std::mutex mutex_;
  std::condition_variable all_here_;
  std::vector<FakeTicket> tickets_;
  int arrived_ = 0;
  std::uint64_t generation_ = 0;
  std::map<std::pair<std::uint64_t, int>, std::shared_ptr<FakeMeeting>> children_;
};

namespace {

std::string call_text(const char* name, std::int64_t count, DType dtype) {
  return fmt::format("{} of {} {}", name, count, name_of(dtype));
}

}  // namespace

FakeProcessGroup::FakeProcessGroup(std::shared_ptr<FakeMeeting> meeting, int rank)
    : meeting_(std::move(meeting)), rank_(rank) {}

int FakeProcessGroup::size() const { return meeting_->size(); }

std::unique_ptr<Work> FakeProcessGroup::all_gather(const void* send, void* recv, std::int64_t count, DType dtype) {
  check_parts("all_gather", count * size_of(dtype), {send, recv});
  const ObservedCall call(*this, "all_gather", size() * count * size_of(dtype));
  const auto bytes = static_cast<std::size_t>(count * size_of(dtype));
  meeting_->meet(*this, {call_text("all_gather", count, dtype), send, 0}, [&] {
    auto* out = static_cast<std::byte*>(recv);
    for (int r = 0; r < size(); ++r) {
      const void* from = meeting_->ticket(r).data;
      if (bytes > 0 && from != out + static_cast<std::size_t>(r) * bytes)
        std::memcpy(out + static_cast<std::size_t>(r) * bytes, from, bytes);
    }
  });
  return call.around(std::make_unique<DoneWork>());
}

std::unique_ptr<Work> FakeProcessGroup::reduce_scatter(void* send, void* recv, std::int64_t count, DType dtype,
                                                       ReduceOp op) {
  check_parts("reduce_scatter", count * size_of(dtype), {send, recv});
  const ObservedCall call(*this, "reduce_scatter", size() * count * size_of(dtype));
  meeting_->meet(*this, {call_text("reduce_scatter", count, dtype), send, 0}, [&] {
    std::vector<const void*> inputs;
    for (int r = 0; r < size(); ++r)
      inputs.push_back(static_cast<const std::byte*>(meeting_->ticket(r).data) + rank_ * count * size_of(dtype));
    local_reduce(inputs, recv, count, dtype, op);
  });
  return call.around(std::make_unique<DoneWork>());
}

std::unique_ptr<Work> FakeProcessGroup::all_reduce(void* data, std::int64_t count, DType dtype, ReduceOp op) {
  check_parts("all_reduce", count * size_of(dtype), {data});
  const ObservedCall call(*this, "all_reduce", count * size_of(dtype));
  std::vector<std::byte> result(static_cast<std::size_t>(count * size_of(dtype)));
  meeting_->meet(*this, {call_text("all_reduce", count, dtype), data, 0}, [&] {
    std::vector<const void*> inputs;
    for (int r = 0; r < size(); ++r) inputs.push_back(meeting_->ticket(r).data);
    local_reduce(inputs, result.data(), count, dtype, op);
  });
  if (!result.empty()) std::memcpy(data, result.data(), result.size());
  return call.around(std::make_unique<DoneWork>());
}

std::unique_ptr<Work> FakeProcessGroup::broadcast(void* data, std::int64_t count, DType dtype, int root) {
  check_parts("broadcast", count * size_of(dtype), {data});
  const ObservedCall call(*this, "broadcast", count * size_of(dtype));
  meeting_->meet(*this, {call_text("broadcast", count, dtype), data, 0}, [&] {
    if (rank_ != root && count > 0)
      std::memcpy(data, meeting_->ticket(root).data, static_cast<std::size_t>(count * size_of(dtype)));
  });
  return call.around(std::make_unique<DoneWork>());
}

std::unique_ptr<Work> FakeProcessGroup::all_to_all(const void* send, void* recv, std::int64_t count, DType dtype) {
  check_parts("all_to_all", count * size_of(dtype), {send, recv});
  const ObservedCall call(*this, "all_to_all", size() * count * size_of(dtype));
  const auto bytes = static_cast<std::size_t>(count * size_of(dtype));
  meeting_->meet(*this, {call_text("all_to_all", count, dtype), send, 0}, [&] {
    for (int r = 0; r < size() && bytes > 0; ++r)
      std::memcpy(static_cast<std::byte*>(recv) + static_cast<std::size_t>(r) * bytes,
                  static_cast<const std::byte*>(meeting_->ticket(r).data) + static_cast<std::size_t>(rank_) * bytes,
                  bytes);
  });
  return call.around(std::make_unique<DoneWork>());
}

void FakeProcessGroup::barrier() {
  meeting_->meet(*this, {"barrier", nullptr, 0}, [] {});
}

std::unique_ptr<ProcessGroup> FakeProcessGroup::split(int color, const GroupOptions& options) {
  std::shared_ptr<FakeMeeting> part;
  int part_rank = 0;
  meeting_->meet(*this, {"split", nullptr, color}, [&] {
    int part_size = 0;
    for (int r = 0; r < size(); ++r) {
      if (meeting_->ticket(r).color != color) continue;
      if (r < rank_) ++part_rank;
      ++part_size;
    }
    part = meeting_->child(color, part_size, meeting_->serial());
  });
  auto group = std::make_unique<FakeProcessGroup>(std::move(part), part_rank);
  group->inherit(*this, options);
  return group;
}

FakeWorld::FakeWorld(int size) : size_(size) {}
FakeWorld::~FakeWorld() = default;

void FakeWorld::run(const std::function<void(ProcessGroup&)>& body) {
  auto meeting = std::make_shared<FakeMeeting>(size_);
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(size_));
  std::vector<std::thread> threads;
  for (int r = 0; r < size_; ++r) {
    threads.emplace_back([&, r] {
      FakeProcessGroup group(meeting, r);
      // A rank that fails leaves the others waiting: not for minutes, in a test.
      group.set_timeout(std::chrono::seconds(20));
      try {
        body(group);
      } catch (...) {
        errors[static_cast<std::size_t>(r)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace shoal::comm

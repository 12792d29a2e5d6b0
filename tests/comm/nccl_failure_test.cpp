// What goes wrong between ranks with GPUs, and who is named for it.
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <mutex>
#include <thread>

#include "comm/nccl_preflight.h"
#include "comm/nccl_rendezvous.h"
#include "core/timer.h"
#include "nccl_fixture.h"

namespace shoal::comm {
namespace {

using namespace std::chrono_literals;

// Ends the whole run where this is not destroyed in time: a rank inside a driver that waits forever cannot fail a test.
class Deadline {
 public:
  Deadline(int rank, std::chrono::seconds limit) : thread_([this, rank, limit] { watch(rank, limit); }) {}
  ~Deadline() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    met_.notify_all();
    thread_.join();
  }
  void now_in(const char* stage) { stage_ = stage; }

 private:
  void watch(int rank, std::chrono::seconds limit) {
    std::unique_lock lock(mutex_);
    if (met_.wait_for(lock, limit, [this] { return over_; })) return;
    std::fprintf(stderr, "[rank %d] FAILED: still in '%s' after %d s; the run is ended\n", rank, stage_.load(),
                 static_cast<int>(limit.count()));
    std::fflush(nullptr);
    std::_Exit(1);
  }

  std::mutex mutex_;
  std::condition_variable met_;
  bool over_ = false;
  std::atomic<const char*> stage_{"its beginning"};
  std::thread thread_;
};

class NcclFailure : public testing::NcclTest {
 protected:
  void SetUp() override {
    NcclTest::SetUp();
    if (!IsSkipped() && control().size() < 2) GTEST_SKIP() << "needs two ranks";
  }
  int last() { return control().size() - 1; }
  std::unique_ptr<MpiProcessGroup> impatient_control() {
    auto group = std::make_unique<MpiProcessGroup>(MPI_COMM_WORLD);
    group->set_timeout(3s);
    return group;
  }
  // The message of the CommunicationError that `act` throws within the seconds given.
  template <typename Act>
  std::string error_of(double seconds, Act&& act) {
    const Timer timer;
    try {
      act();
    } catch (const CommunicationError& error) {
      EXPECT_LT(timer.seconds(), seconds);
      std::printf("[rank %d] %s\n", control().rank(), error.what());
      return error.what();
    }
    ADD_FAILURE() << "no error";
    return "";
  }
};

TEST_F(NcclFailure, ARankThatNeverArrivesIsNamedWithItsHost) {
  const auto group = impatient_control();
  if (control().rank() != last()) {
    const std::string what = error_of(5, [&] { make_nccl_group(*group, control().rank(), [] { return nullptr; }); });
    EXPECT_NE(what.find(fmt::format("rank {} on host {}", last(), group->host_of(last()))), std::string::npos) << what;
  }
  control().barrier();
}

TEST_F(NcclFailure, ARankThatIsLostInsideNcclsRendezvousIsNamedToo) {
  const auto group = impatient_control();
  const std::vector<RankCard> cards = exchange_cards(*group, control().rank());
  if (control().rank() != last()) {
    const std::string what = error_of(15, [&] { meet(*group, cards, 128); });
    EXPECT_NE(what.find(fmt::format("rank {} on host {}", last(), cards.back().host)), std::string::npos) << what;
    EXPECT_NE(what.find("ncclCommInitRank"), std::string::npos) << what;
  } else {
    all_gather_bytes(*group, "");  // of the ids
    group->barrier();
  }
  control().barrier();
}

TEST_F(NcclFailure, TwoRanksOnOneGpuAreNamed) {
  try {
    make_nccl_group(control(), 0, [] { return nullptr; });
    ADD_FAILURE() << "no error";
  } catch (const DeviceError& error) {
    const std::string what = error.what();
    EXPECT_NE(what.find("ranks 0 and 1 on host"), std::string::npos) << what;
    EXPECT_NE(what.find("CUDA_VISIBLE_DEVICES"), std::string::npos) << what;
  }
}

TEST_F(NcclFailure, ACollectiveWithoutEndIsNoticedBesideTheMainThread) {
  std::promise<std::string> heard;
  std::future<std::string> line = heard.get_future();
  const auto world = make_world({.on_trouble = [&](const std::string& text) { heard.set_value(text); }});
  const auto group = world->split(0, {.name = "shard", .traffic = Traffic::reduce});
  const auto memory = testing::plain_memory(4096);
  group->all_reduce(memory.get(), 1024, DType::float32, ReduceOp::sum)->wait();
  finish();
  group->set_timeout(2s);
  group->set_activity("the reduce-scatter of unit 'h.3'");
  if (control().rank() != last()) {
    group->all_reduce(memory.get(), 1024, DType::float32, ReduceOp::sum)->wait();
    ASSERT_EQ(line.wait_for(6s), std::future_status::ready);
    const std::string what = line.get();
    std::printf("[rank %d] %s\n", control().rank(), what.c_str());
    EXPECT_NE(what.find("the reduce-scatter of unit 'h.3'"), std::string::npos) << what;
    EXPECT_NE(what.find("--collective-timeout"), std::string::npos) << what;
  }
  control().barrier();
  if (control().rank() == last()) group->all_reduce(memory.get(), 1024, DType::float32, ReduceOp::sum)->wait();
  finish();  // all came in the end
}

// The last one: it leaves a GPU behind that is waiting.
TEST_F(NcclFailure, AnExceptionUnderwayDoesNotHangInDestructors) {
  leave_stream();
  Deadline deadline(control().rank(), 25s);
  double thrown = 0;
  const Timer timer;
  try {
    const auto world = make_world({.on_trouble = [](const std::string&) {}});
    const auto group = world->split(0, {.name = "shard", .traffic = Traffic::gather});
    const auto in = group->allocate(1 << 20), out = group->allocate((1 << 20) * group->size());
    // The first of a kind sets it up with all ranks, inside the call.
    deadline.now_in("collectives to which all come");
    group->all_gather(in.get(), out.get(), 1 << 20, DType::uint8)->wait();
    group->all_reduce(in.get(), 1 << 10, DType::float32, ReduceOp::sum)->wait();
    finish();
    // The last rank leaves without coming to this one.
    deadline.now_in("the call of a collective to which one does not come");
    if (control().rank() != last()) group->all_reduce(in.get(), 1 << 10, DType::float32, ReduceOp::sum)->wait();
    deadline.now_in("destructors while an exception is on its way");
    thrown = timer.seconds();
    throw std::runtime_error("a loss that is not a number");
  } catch (const std::runtime_error&) {
  }
  EXPECT_LT(timer.seconds() - thrown, 15);
  deadline.now_in("the barrier of all ranks");
  control().barrier();
}

}  // namespace
}  // namespace shoal::comm

// Ranks are processes here, made by fork(): they share the slots as the ranks of a node do, and can be stopped and
// killed.
#include "launch/hang_watch.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <functional>
#include <new>
#include <thread>

#include "core/file_io.h"
#include "launch/first_failure.h"
#include "launch/node_report.h"
#include "launch/run_records.h"

namespace shoal::launch {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using activity::Operation;
using activity::Slot;

constexpr int kHang = static_cast<int>(ExitCode::hang);

class HangWatchTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kRanks = 3;

  HangWatchTest()
      : memory_(mmap(nullptr, kRanks * sizeof(Slot), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)),
        where_(fs::temp_directory_path() / fmt::format("shoal-hang-{}", getpid())) {
    for (std::size_t i = 0; i < kRanks; ++i) {
      slots_.push_back(new (static_cast<Slot*>(memory_) + i) Slot);
      slots_[i]->rank = static_cast<int>(i);
    }
    fs::create_directories(where_);
    activity::slot().rank = 0;
    activity::slot().leaving = activity::kStays;  // whatever the test before did
    activity::use_slot(slots_[0]);
    keep_failures_in(failure(), {.attempt = 1, .host = "here"});
  }
  ~HangWatchTest() override {
    for (const pid_t pid : children_) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
    keep_failures_in("", {});
    activity::use_slot(nullptr);
    munmap(memory_, kRanks * sizeof(Slot));
    fs::remove_all(where_);
  }

  // A rank that enters `operation`, and then beats, and moves if it is to, until it is killed.
  pid_t start(int rank, Operation operation, bool moves) {
    const pid_t pid = fork();
    if (pid == 0) {
      activity::use_slot(nullptr);  // its parent's is not to change
      activity::slot().rank = rank;
      activity::use_slot(slots_[static_cast<std::size_t>(rank)]);
      activity::begin_step(4);
      activity::enter(operation);
      for (;;) {
        if (moves) activity::progressed();
        activity::beat();
        usleep(5000);
      }
    }
    children_.push_back(pid);
    while (slots_[static_cast<std::size_t>(rank)]->step != 4) usleep(1000);
    return pid;
  }

  HangWatchOptions options(std::chrono::milliseconds timeout) {
    HangWatchOptions o{.timeout = timeout, .where = where_, .attempt = 1, .first_failure = failure()};
    o.hosts.assign(kRanks, "here");
    o.nodes.assign(kRanks, 0);
    o.patience = 50ms;
    o.answers = 1500ms;
    return o;
  }
  fs::path failure() const { return where_ / "first_failure.json"; }
  FailureRecord recorded() { return parse_failure(read_text_file(failure()), failure().string()); }

  // Looks until there is trouble or the time is up, while this rank does what `moves` does.
  std::optional<std::string> watch(HangWatch& hangs, std::chrono::milliseconds limit,
                                   const std::function<void()>& moves = activity::progressed) {
    const auto end = std::chrono::steady_clock::now() + limit;
    while (std::chrono::steady_clock::now() < end) {
      if (moves) moves();
      if (auto line = hangs.trouble()) return line;
      std::this_thread::sleep_for(10ms);
    }
    return std::nullopt;
  }

  void* memory_;
  fs::path where_;
  std::vector<Slot*> slots_;
  std::vector<pid_t> children_;
};

TEST_F(HangWatchTest, RanksThatMoveAreLeftAlone) {
  start(1, Operation::backward, true);
  start(2, Operation::backward, true);
  HangWatch hangs(slots_, 0, options(200ms));
  EXPECT_EQ(watch(hangs, 800ms), std::nullopt);
  EXPECT_FALSE(fs::exists(failure()));
}

TEST_F(HangWatchTest, AStoppedRankIsNamedWithItsPlaceAndRecorded) {
  start(1, Operation::backward, true);
  const pid_t pid = start(2, Operation::save, true);
  HangWatch hangs(slots_, 0, options(300ms));
  kill(pid, SIGSTOP);
  activity::begin_step(4);
  const auto line = watch(hangs, 5s, [] { activity::enter(Operation::backward); });
  ASSERT_TRUE(line.has_value());
  EXPECT_NE(
      line->find("rank 2 on host here is stopped (SIGSTOP, or a debugger) in checkpoint save of step 4; ranks 0-1 "
                 "on host here are in backward of step 4"),
      std::string::npos)
      << *line;
  EXPECT_NE(line->find("--hang-timeout 0.3"), std::string::npos) << *line;
  EXPECT_EQ(hangs.exit_code(), kHang);
  const FailureRecord record = recorded();
  EXPECT_EQ(record.rank, 2);
  EXPECT_EQ(record.exit_code, kHang);
  EXPECT_EQ(record.attempt, 1);
  EXPECT_EQ(record.reason, *line);
}

TEST_F(HangWatchTest, OneThatHangsWhileOthersWaitForItIsTheOddOne) {
  start(1, Operation::forward, false);
  start(2, Operation::data, false);
  HangWatch hangs(slots_, 0, options(300ms));
  activity::begin_step(4);
  activity::enter(Operation::forward);
  const auto line = watch(hangs, 5s, nullptr);
  ASSERT_TRUE(line.has_value());
  EXPECT_NE(line->find("rank 2 on host here is in reading data of step 4; ranks 0-1 on host here are in forward"),
            std::string::npos)
      << *line;
  EXPECT_EQ(recorded().rank, 2);
}

TEST_F(HangWatchTest, WaitingForAnotherRanksOutputIsNoHang) {
  start(1, Operation::waiting, false);
  start(2, Operation::waiting, false);
  HangWatch hangs(slots_, 0, options(200ms));
  EXPECT_EQ(watch(hangs, 600ms), std::nullopt);
}

TEST_F(HangWatchTest, WithoutATimeOutNobodyIsTooLate) {
  start(1, Operation::forward, false);
  start(2, Operation::forward, false);
  HangWatch hangs(slots_, 0, options(0ms));
  EXPECT_EQ(watch(hangs, 500ms, nullptr), std::nullopt);
}

TEST_F(HangWatchTest, AKilledRankIsToldAtOnceAndLeftWithAfterAWhile) {
  const pid_t pid = start(1, Operation::optimizer, true);
  start(2, Operation::optimizer, true);
  HangWatch hangs(slots_, 0, options(0ms));
  EXPECT_EQ(hangs.trouble(), std::nullopt);
  kill(pid, SIGKILL);
  siginfo_t info{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(hangs.trouble(), std::nullopt) << "a launcher may end the job with the code that it knows";
  const FailureRecord record = recorded();
  EXPECT_EQ(record.rank, 1);
  EXPECT_EQ(record.host, "here");
  EXPECT_NE(record.reason.find("ended without a word"), std::string::npos);
  EXPECT_NE(read_text_file(failure()).find("\"operation\": \"the optimizer step\""), std::string::npos);
  EXPECT_EQ(record.exit_code, 128 + SIGKILL);
  EXPECT_EQ(watch(hangs, 3s), "");
  EXPECT_EQ(hangs.exit_code(), 128 + SIGKILL);
}

TEST_F(HangWatchTest, ANeighbourThatEndsInGoodOrderIsNoFailure) {
  const pid_t pid = start(1, Operation::finish, true);
  start(2, Operation::finish, true);
  HangWatch hangs(slots_, 0, options(0ms));
  slots_[1]->leaving = 0;
  kill(pid, SIGKILL);
  EXPECT_EQ(watch(hangs, 300ms), std::nullopt);
  EXPECT_FALSE(fs::exists(failure()));
}

TEST_F(HangWatchTest, ANeighbourThatLeavesWithAnErrorTakesItsCodeAlong) {
  start(1, Operation::forward, true);
  start(2, Operation::forward, true);
  HangWatch hangs(slots_, 0, options(0ms));
  slots_[1]->leaving = static_cast<int>(ExitCode::device);
  const auto line = watch(hangs, 3s);
  ASSERT_TRUE(line.has_value());
  EXPECT_EQ(*line, "") << "it tells its reason itself";
  EXPECT_EQ(hangs.exit_code(), static_cast<int>(ExitCode::device));
}

TEST_F(HangWatchTest, AMainThreadThatDoesNotGetOutIsNotWaitedForForEver) {
  HangWatchOptions o = options(0ms);
  o.last_words = 200ms;
  HangWatch hangs({slots_[0]}, 0, o);
  activity::leave_with(static_cast<int>(ExitCode::io));
  EXPECT_EQ(hangs.trouble(), std::nullopt);
  const auto line = watch(hangs, 3s);
  ASSERT_TRUE(line.has_value());
  EXPECT_EQ(hangs.exit_code(), static_cast<int>(ExitCode::io));
}

// Two nodes: the other one's reporter is played by this test.
TEST_F(HangWatchTest, AStrikeElsewhereIsAnsweredAndLeftWith) {
  HangWatchOptions o = options(60s);
  o.hosts = {"a", "b"};
  o.nodes = {0, 1};
  o.answers = -2900ms;  // so that 100 ms are left for the teller
  HangWatch hangs({slots_[0]}, 0, o);
  EXPECT_EQ(watch(hangs, 200ms), std::nullopt);
  EXPECT_FALSE(parse_node_report(read_text_file(node_report_file(where_, 0, 1))).struck);
  EXPECT_TRUE(create_text_file(where_ / "teller.attempt-000001", "rank 1\n"));
  replace_text_file(where_ / "strike.attempt-000001", "rank 1\n", false);
  const auto line = watch(hangs, 5s);
  ASSERT_TRUE(line.has_value());
  EXPECT_EQ(*line, "") << "the one that struck first tells";
  EXPECT_EQ(hangs.exit_code(), kHang);
  EXPECT_TRUE(parse_node_report(read_text_file(node_report_file(where_, 0, 1))).struck);
}

TEST_F(HangWatchTest, OtherNodesAreAskedForAndThoseThatDoNotAnswerAreNamed) {
  HangWatchOptions o = options(200ms);
  o.hosts = {"a", "b", "c"};
  o.nodes = {0, 1, 2};
  HangWatch hangs({slots_[0]}, 0, o);
  NodeReport other{.time = 1, .struck = true};
  other.ranks = {{.rank = 1, .host = "b"}};
  other.ranks[0].at.operation = Operation::save;
  write_text_file(node_report_file(where_, 1, 1), to_json(other));
  activity::begin_step(0);
  activity::enter(Operation::forward);
  const auto line = watch(hangs, 8s, nullptr);
  ASSERT_TRUE(line.has_value());
  EXPECT_NE(line->find("rank 2 on host c is not heard of"), std::string::npos) << *line;
  EXPECT_NE(line->find("rank 1 on host b is in checkpoint save"), std::string::npos) << *line;
  EXPECT_NE(line->find("rank 0 on host a is in forward"), std::string::npos) << *line;
  EXPECT_EQ(recorded().rank, 2);
}

TEST_F(HangWatchTest, WithoutARunDirectoryTheNodeSpeaksForItself) {
  HangWatchOptions o = options(200ms);
  o.where = "";
  o.hosts = {"a", "b"};
  o.nodes = {0, 1};
  HangWatch hangs({slots_[0]}, 0, o);
  const auto line = watch(hangs, 3s, nullptr);
  ASSERT_TRUE(line.has_value());
  EXPECT_NE(line->find("would be known with --run-dir"), std::string::npos) << *line;
  EXPECT_EQ(hangs.exit_code(), kHang);
}

TEST_F(HangWatchTest, TheNextRankSpeaksWhereTheFirstIsStopped) {
  const pid_t pid = start(1, Operation::start, true);
  activity::use_slot(slots_[2]);
  slots_[2]->rank = 2;
  slots_[0]->leaving = activity::kStays;
  slots_[0]->beat_at = 0;  // as if rank 0 had been stopped long ago
  slots_[0]->step = 4;
  slots_[0]->process = pid;
  slots_[0]->process_start = slots_[1]->process_start.load();
  kill(pid, SIGSTOP);
  HangWatch hangs(slots_, 2, options(300ms));
  const auto line = watch(hangs, 8s);
  ASSERT_TRUE(line.has_value());
  EXPECT_NE(line->find("rank 0 on host here is stopped"), std::string::npos) << *line;
  EXPECT_EQ(hangs.exit_code(), kHang);
}

TEST_F(HangWatchTest, AFailureOnAnotherNodeEndsThisOneWithItsCode) {
  HangWatchOptions o = options(60s);
  o.last_words = 100ms;
  o.hosts = {"a", "b"};
  o.nodes = {0, 1};
  HangWatch hangs({slots_[0]}, 0, o);
  EXPECT_EQ(watch(hangs, 100ms), std::nullopt);
  write_text_file(failure(), format(FailureRecord{.attempt = 1, .rank = 1, .exit_code = 3}));
  const auto line = watch(hangs, 5s);
  ASSERT_TRUE(line.has_value());
  EXPECT_EQ(hangs.exit_code(), 3);
}

}  // namespace
}  // namespace shoal::launch

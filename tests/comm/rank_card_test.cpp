#include "comm/rank_card.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "core/error.h"

namespace shoal::comm {
namespace {

using namespace std::chrono_literals;

RankCard card(const std::string& host, const std::string& gpu, int version = 22809) {
  return {.host = host, .machine = "boot of " + host, .gpu = gpu, .nccl_version = version, .process = getpid()};
}

TEST(RankCard, GoesThroughTextAndBack) {
  RankCard mine = card("node7", "0000:1b:00.0");
  mine.process = 12345;
  mine.uuid = "GPU-8f3e2d1c";
  mine.process_space = "pid:[4026531836]";
  const RankCard back = parse_card(to_text(mine));
  EXPECT_EQ(back.host, mine.host);
  EXPECT_EQ(back.machine, mine.machine);
  EXPECT_EQ(back.gpu, mine.gpu);
  EXPECT_EQ(back.uuid, mine.uuid);
  EXPECT_EQ(back.nccl_version, mine.nccl_version);
  EXPECT_EQ(back.process, mine.process);
  EXPECT_EQ(back.process_space, mine.process_space);
  EXPECT_EQ(parse_card(to_text({})).process_space, "");
  EXPECT_THROW(parse_card("node7\n"), InternalError);
}

TEST(RankCard, EachRankItsGpuAndOneVersionAreInOrder) {
  const std::vector<RankCard> cards{card("a", "0000:1b:00.0"), card("a", "0000:1c:00.0"), card("b", "0000:1b:00.0")};
  EXPECT_NO_THROW(check_cards(cards));
}

TEST(RankCard, TwoRanksOnOneGpuAreNamedWithTheFlag) {
  const std::vector<RankCard> cards{card("a", "0000:1b:00.0"), card("b", "0000:1b:00.0"), card("b", "0000:1b:00.0")};
  try {
    check_cards(cards);
    FAIL() << "no error";
  } catch (const DeviceError& error) {
    const std::string what = error.what();
    EXPECT_NE(what.find("ranks 1 and 2 on host b both have GPU 0000:1b:00.0"), std::string::npos) << what;
    EXPECT_NE(what.find("--gpus-per-task"), std::string::npos) << what;
    EXPECT_NE(what.find("CUDA_VISIBLE_DEVICES"), std::string::npos) << what;
  }
}

TEST(RankCard, OneUuidIsOneGpuWhateverTheMachine) {
  std::vector<RankCard> cards{card("vm1", "0000:1b:00.0"), card("vm2", "0000:05:00.0")};
  cards[0].uuid = "GPU-1";
  cards[1].uuid = "GPU-2";
  EXPECT_NO_THROW(check_cards(cards));
  cards[1].uuid = "GPU-1";
  try {
    check_cards(cards);
    FAIL() << "no error";
  } catch (const DeviceError& error) {
    const std::string what = error.what();
    EXPECT_NE(what.find("ranks 0 and 1 on host vm1 and vm2 both have GPU 0000:05:00.0, GPU-1"), std::string::npos)
        << what;
    EXPECT_NE(what.find("--gpus-per-task=1"), std::string::npos) << what;
  }
}

TEST(RankCard, TwoHostsOfOneNameAreTwoMachines) {
  std::vector<RankCard> cards{card("localhost", "0000:1b:00.0"), card("localhost", "0000:1b:00.0")};
  cards[1].machine = "another boot";
  EXPECT_NO_THROW(check_cards(cards));
}

TEST(RankCard, DifferentVersionsAreNamedWithRanksAndHosts) {
  const std::vector<RankCard> cards{card("a", "1"), card("a", "2"), card("b", "1", 22703)};
  try {
    check_cards(cards);
    FAIL() << "no error";
  } catch (const CommunicationError& error) {
    const std::string what = error.what();
    EXPECT_NE(what.find("rank 0 on host a runs NCCL 2.28.9, rank 2 on host b runs 2.27.3"), std::string::npos) << what;
  }
}

// A neighbour that lives until it is told to end, and is then reaped.
class Child {
 public:
  Child() : pid_(fork()) {
    if (pid_ != 0) return;
    for (;;) pause();
  }
  ~Child() { end(); }
  void end() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

TEST(NeighbourProcesses, OneThatEndsIsNamedAfterAWhile) {
  Child child;
  std::vector<RankCard> cards{card("a", "1"), card("a", "2")};
  cards[1].process = child.pid();
  NeighbourProcesses neighbours(cards, 0, 30ms);
  EXPECT_EQ(neighbours.trouble(), std::nullopt);
  child.end();
  EXPECT_EQ(neighbours.trouble(), std::nullopt);
  std::this_thread::sleep_for(40ms);
  const auto trouble = neighbours.trouble();
  ASSERT_TRUE(trouble.has_value());
  EXPECT_NE(trouble->find("rank 1"), std::string::npos) << *trouble;
  EXPECT_NE(trouble->find("host a"), std::string::npos) << *trouble;
}

TEST(NeighbourProcesses, ThoseElsewhereAreNotLookedAt) {
  Child child;
  const pid_t gone = child.pid();
  std::vector<RankCard> cards{card("a", "1"), card("b", "1"), card("a", "2"), card("a", "3")};
  for (std::size_t r = 1; r < 3; ++r) cards[r].process = gone;
  cards[2].process_space = "another";  // where the same number is another process
  NeighbourProcesses neighbours(cards, 0, 0ms);
  child.end();
  EXPECT_EQ(neighbours.trouble(), std::nullopt);
}

}  // namespace
}  // namespace shoal::comm

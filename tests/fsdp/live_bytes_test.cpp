// What the tests of memory count by: each way in which a tensor's memory can come and go beside a counting thread.
#include "support/live_bytes.h"

#include <gtest/gtest.h>

#include <thread>

namespace shoal::testing {
namespace {

at::Tensor kilobytes(int n) { return at::empty({n * 1024}, at::kByte); }

TEST(LiveBytes, CountsWhatItsThreadIsGivenWhileItLives) {
  const at::Tensor before = kilobytes(1);
  LiveBytes live;
  at::Tensor mine = kilobytes(3);
  { const at::Tensor more = kilobytes(2); }
  std::thread([] { kilobytes(7); }).join();
  EXPECT_EQ(live.live(), 3 * 1024);
  EXPECT_EQ(live.peak(), 5 * 1024);
  live.restart_peak();
  EXPECT_EQ(live.peak(), 3 * 1024);
  mine.reset();
  EXPECT_EQ(live.live(), 0);
}

TEST(LiveBytes, AnotherThreadGivesBack) {
  const LiveBytes live;
  at::Tensor mine = kilobytes(3);
  std::thread([&] { mine.reset(); }).join();
  EXPECT_EQ(live.live(), 0);
}

// By LibTorch's table of sizes the last line has -4 KiB, where the memory comes to lie at the same address again.
TEST(LiveBytes, WhatIsGivenBackAfterTheEndIsNobodyElses) {
  at::Tensor tensor;
  {
    const LiveBytes live;
    tensor = kilobytes(4);
  }
  tensor.reset();
  tensor = kilobytes(4);
  const LiveBytes live;
  tensor.reset();
  EXPECT_EQ(live.live(), 0);
}

}  // namespace
}  // namespace shoal::testing

#include "comm/local_reduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "comm/fake_process_group.h"
#include "core/error.h"
#include "core/half.h"

namespace shoal::comm {
namespace {

TEST(LocalReduce, SixteenBitFloatsAreAddedInSinglePrecision) {
  // 256 + 255 times 1: in bfloat16 arithmetic the sum sticks at 256, since 257 rounds to it.
  std::vector<BFloat16> parts(256, to_bfloat16(1.0f));
  parts[0] = to_bfloat16(256.0f);
  std::vector<const void*> inputs;
  for (const BFloat16& part : parts) inputs.push_back(&part);
  BFloat16 sum{};
  local_reduce(inputs, &sum, 1, DType::bfloat16, ReduceOp::sum);
  EXPECT_EQ(to_float(sum), to_float(to_bfloat16(511.0f)));

  std::vector<Float16> halves(2049, to_float16(1.0f));
  inputs.clear();
  for (const Float16& half : halves) inputs.push_back(&half);
  Float16 total{};
  local_reduce(inputs, &total, 1, DType::float16, ReduceOp::sum);
  EXPECT_EQ(to_float(total), to_float(to_float16(2049.0f)));
}

TEST(LocalReduce, EveryBlockOfALongArrayIsReduced) {
  const std::int64_t count = 10'000;
  std::vector<double> a(count), b(count), out(count);
  for (std::int64_t i = 0; i < count; ++i) a[i] = static_cast<double>(i), b[i] = 2.0 * static_cast<double>(i);
  const std::vector<const void*> inputs{a.data(), b.data()};
  local_reduce(inputs, out.data(), count, DType::float64, ReduceOp::sum);
  for (std::int64_t i = 0; i < count; ++i) ASSERT_EQ(out[i], 3.0 * static_cast<double>(i));
  local_reduce(inputs, a.data(), count, DType::float64, ReduceOp::max);  // into one of its inputs
  EXPECT_EQ(a, b);
}

TEST(Half, RoundsToNearestEvenAndKeepsNaN) {
  EXPECT_EQ(to_bfloat16(1.0f).bits, 0x3F80);
  EXPECT_EQ(to_bfloat16(1.00390625f).bits, 0x3F80);  // half way, to even: down
  EXPECT_EQ(to_bfloat16(1.01171875f).bits, 0x3F82);  // half way, to even: up
  EXPECT_TRUE(std::isnan(to_float(to_bfloat16(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_TRUE(std::isinf(to_float(to_bfloat16(std::numeric_limits<float>::max()))));
  EXPECT_EQ(to_float16(65504.0f).bits, 0x7BFF);
  for (std::uint32_t bits = 0; bits < 0x7C00; ++bits)
    ASSERT_EQ(to_float16(to_float(Float16{static_cast<std::uint16_t>(bits)})).bits, bits);
}

TEST(FakeWorld, RanksInDifferentCollectivesAreAnError) {
  FakeWorld world(2);
  EXPECT_THROW(world.run([](ProcessGroup& group) {
    std::int64_t x = 1;
    if (group.rank() == 0)
      group.all_reduce(&x, 1, DType::int64, ReduceOp::sum)->wait();
    else
      group.broadcast(&x, 1, DType::int64, 0)->wait();
  }),
               CommunicationError);
}

TEST(FakeWorld, ARankThatDoesNotComeIsATimeOut) {
  FakeWorld world(2);
  EXPECT_THROW(world.run([](ProcessGroup& group) {
    group.set_timeout(std::chrono::milliseconds(50));
    if (group.rank() == 0) group.barrier();
  }),
               CommunicationError);
}

}  // namespace
}  // namespace shoal::comm

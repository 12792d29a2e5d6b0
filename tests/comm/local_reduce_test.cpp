#include "comm/local_reduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "comm/fake_process_group.h"
#include "comm/naive_tree.h"
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

// Element i of what `inputs` ranks bring must come out as the naive tree over it, in place as well.
template <typename T>
void expect_the_tree(int inputs, std::int64_t count) {
  std::vector<std::vector<T>> parts(static_cast<std::size_t>(inputs));
  std::vector<const void*> pointers;
  for (int k = 0; k < inputs; ++k) {
    for (std::int64_t i = 0; i < count; ++i) parts[k].push_back(testing::uneven_element<T>(k, i));
    pointers.push_back(parts[k].data());
  }
  std::vector<T> expected, out(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    std::vector<T> terms;
    for (const std::vector<T>& part : parts) terms.push_back(part[i]);
    expected.push_back(testing::naive_tree(terms));
  }
  local_reduce(pointers, out.data(), count, testing::kTypeOf<T>, ReduceOp::sum);
  for (std::int64_t i = 0; i < count; ++i) ASSERT_EQ(testing::exact(out[i]), testing::exact(expected[i])) << inputs;
  std::vector<T>& last = parts.back();
  local_reduce(pointers, last.data(), count, testing::kTypeOf<T>, ReduceOp::sum);
  for (std::int64_t i = 0; i < count; ++i) ASSERT_EQ(testing::exact(last[i]), testing::exact(expected[i])) << inputs;
}

TEST(LocalReduce, IsATreeOfNeighboursForAnyNumberOfInputs) {
  for (int inputs = 1; inputs <= 17; ++inputs) {
    expect_the_tree<float>(inputs, 5000);  // more than one block
    expect_the_tree<double>(inputs, 77);
    expect_the_tree<BFloat16>(inputs, 77);
    expect_the_tree<Float16>(inputs, 77);
  }
  expect_the_tree<float>(100, 33);
}

// What makes the sum over micro-steps and ranks independent of which of them does what.
TEST(LocalReduce, TreesOverPowersOfTwoAreBranchesOfTheTreeOverAll) {
  for (const int branch : {1, 2, 4, 8}) {
    for (const int branches : {1, 2, 3, 5, 8}) {
      std::vector<float> terms, sums;
      for (int k = 0; k < branch * branches; ++k) terms.push_back(testing::uneven_element<float>(k, 0));
      std::vector<const void*> all, of_branches;
      for (const float& term : terms) all.push_back(&term);
      for (int b = 0; b < branches; ++b) {
        float& sum = sums.emplace_back();
        local_reduce(std::span(all).subspan(static_cast<std::size_t>(b * branch), static_cast<std::size_t>(branch)),
                     &sum, 1, DType::float32, ReduceOp::sum);
      }
      for (const float& sum : sums) of_branches.push_back(&sum);
      float total = 0, expected = 0;
      local_reduce(of_branches, &total, 1, DType::float32, ReduceOp::sum);
      local_reduce(all, &expected, 1, DType::float32, ReduceOp::sum);
      EXPECT_EQ(total, expected) << branches << " branches of " << branch;
    }
  }
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

// Sums over ranks: the tree of comm::local_reduce() to the bit, on the host and on a GPU.
#include "kernels/sum_ranks.h"

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <chrono>
#include <tuple>
#include <vector>

#include "comm/local_reduce.h"
#include "core/error.h"

namespace shoal::kernels {
namespace {

struct Types {
  DType from, to;
  at::ScalarType from_torch, to_torch;
};
const std::vector<Types> kTypes{{DType::bfloat16, DType::float32, at::kBFloat16, at::kFloat},
                                {DType::float16, DType::float32, at::kHalf, at::kFloat},
                                {DType::float32, DType::float32, at::kFloat, at::kFloat},
                                {DType::bfloat16, DType::float64, at::kBFloat16, at::kDouble},
                                {DType::float16, DType::float64, at::kHalf, at::kDouble},
                                {DType::float32, DType::float64, at::kFloat, at::kDouble},
                                {DType::float64, DType::float64, at::kDouble, at::kDouble}};
const std::vector<int> kRanks{1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 31, 32, 33, 49, 100};

// [ranks][count] of widely different sizes, so that every order of addition gives bits of its own; some are -0.
at::Tensor random_rows(int ranks, std::int64_t count, at::ScalarType type, int seed) {
  auto generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(seed));
  const at::Tensor size = at::randint(-6, 7, {ranks, count}, generator, at::kDouble).exp2();
  const at::Tensor values = at::randn({ranks, count}, generator, at::kDouble) * size;
  return at::where(values.abs().lt(0.01), -0.0, values).to(type);
}

// What local_reduce() makes of rows that were widened before.
at::Tensor tree(const at::Tensor& rows, const Types& types) {
  const at::Tensor wide = rows.to(types.to_torch);
  std::vector<const void*> inputs;
  for (const at::Tensor& row : wide.unbind(0)) inputs.push_back(row.data_ptr());
  at::Tensor sum = at::empty({rows.size(1)}, types.to_torch);
  comm::local_reduce(inputs, sum.data_ptr(), sum.numel(), types.to, comm::ReduceOp::sum);
  return sum;
}

void expect_same_bits(const at::Tensor& a, const at::Tensor& b) {
  const auto bits = a.scalar_type() == at::kFloat ? at::kInt : at::kLong;
  EXPECT_TRUE(a.view(bits).equal(b.view(bits)));
}

// `sum`: rows and place of the result in memory of the device that is tested.
template <typename Sum>
void check_all(at::Device device, Sum&& sum) {
  for (const Types& types : kTypes)
    for (const int ranks : kRanks)
      for (const std::int64_t count : {0, 1, 7, 16, 4096, 5003}) {
        SCOPED_TRACE(fmt::format("{} x {} {} in {}", ranks, count, name_of(types.from), name_of(types.to)));
        const at::Tensor rows = random_rows(ranks, count, types.from_torch, ranks + static_cast<int>(count));
        const at::Tensor expected = tree(rows, types), there = rows.to(device);
        const at::Tensor result = at::full({count + 1}, std::nan(""), types.to_torch).to(device);
        const RankRows from{there.data_ptr(), types.from, count, ranks};
        sum(from, RankSum{result.data_ptr(), types.to, false});
        expect_same_bits(result.narrow(0, 0, count).cpu(), expected);
        sum(from, RankSum{result.data_ptr(), types.to, true});
        expect_same_bits(result.narrow(0, 0, count).cpu(), expected + expected);
        EXPECT_TRUE(result[count].isnan().item<bool>());  // nothing is written past the end
      }
}

void on_device(const RankRows& rows, const RankSum& to) { sum_ranks_on_device(rows, to, nullptr); }

TEST(SumRanks, IsTheTreeOfLocalReduceToTheBit) {
  check_all(at::kCPU, [](const RankRows& rows, const RankSum& to) { sum_ranks(rows, to); });
}

TEST(SumRanks, RefusesToLoseDigits) {
  float sum = 0;
  const double row = 1;
  EXPECT_THROW(sum_ranks({&row, DType::float64, 1, 1}, {&sum, DType::float32}), InternalError);
  EXPECT_THROW(sum_ranks({&sum, DType::float32, 1, 1}, {&sum, DType::bfloat16}), InternalError);
}

class SumRanksOnDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "no GPU here";
  }
};

TEST_F(SumRanksOnDevice, IsTheTreeOfLocalReduceToTheBit) { check_all(at::kCUDA, on_device); }

TEST_F(SumRanksOnDevice, TakesRowsThatAreNotAligned) {
  const Types& types = kTypes[0];
  const at::Tensor rows = random_rows(5, 4096, at::kBFloat16, 3);
  at::Tensor there =
      at::empty({5 * 4096 + 1}, at::TensorOptions(at::kCUDA).dtype(at::kBFloat16)).narrow(0, 1, 5 * 4096);
  there.copy_(rows.flatten());
  const at::Tensor result = at::zeros({4097}, at::kCUDA).narrow(0, 1, 4096);
  on_device({there.data_ptr(), types.from, 4096, 5}, {result.data_ptr(), types.to});
  expect_same_bits(result.cpu(), tree(rows, types));
}

// The gradients of a unit that a rank gets: a block of GPT-2 124M, of GPT-2 1.5B, of Llama-8B.
TEST_F(SumRanksOnDevice, DISABLED_Speed) {
  for (const std::int64_t unit : {7'087'872, 30'740'800, 218'112'000})
    for (const int ranks : {2, 4, 8})
      for (const bool add : {false, true}) {
        const std::int64_t count = unit / ranks / 16 * 16;
        const at::Tensor rows = at::ones({ranks, count}, at::TensorOptions(at::kCUDA).dtype(at::kBFloat16));
        const at::Tensor sum = at::zeros({count}, at::kCUDA);
        const auto run = [&](int times) {
          torch::cuda::synchronize();
          const auto start = std::chrono::steady_clock::now();
          for (int i = 0; i < times; ++i)
            on_device({rows.data_ptr(), DType::bfloat16, count, ranks}, {sum.data_ptr(), DType::float32, add});
          torch::cuda::synchronize();
          return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / times;
        };
        run(3);
        const double seconds = run(50);
        const double bytes = static_cast<double>(count) * (2.0 * ranks + (add ? 8 : 4));
        fmt::print("{} ranks, unit of {} elements, {}: {:.1f} us, {:.0f} GB/s\n", ranks, unit,
                   add ? "added" : "written", seconds * 1e6, bytes / seconds / 1e9);
      }
}

}  // namespace
}  // namespace shoal::kernels

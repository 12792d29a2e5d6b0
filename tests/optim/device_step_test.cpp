// The optimizers' kernel against the loops of the host in double.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>

#include "core/half.h"
#include "optim/device_arrays.h"
#include "optim/optimizer.h"

namespace shoal::optim {
namespace {

using testing::OnDevice;

constexpr double kScale = 0.37;
constexpr int kSteps = 3;

struct Shard {
  std::vector<double> param, grad, state0, state1;
  std::vector<DeviceSpan> spans;  // of this shard; `array` is set by who puts shards together
};

std::vector<double> random_values(std::size_t count, std::mt19937_64& random, double least) {
  std::normal_distribution<double> normal;
  std::vector<double> values(count);
  for (double& v : values) v = least >= 0 ? least + std::abs(normal(random)) : normal(random);
  return values;
}

// States as they are in the middle of a run; spans of `groups` groups that begin anywhere, with holes between some.
Shard random_shard(std::int64_t count, int groups, std::mt19937_64& random) {
  const auto n = static_cast<std::size_t>(count);
  Shard shard{random_values(n, random, -1),
              random_values(n, random, -1),
              random_values(n, random, 0.01),
              random_values(n, random, 0.01),
              {}};
  std::int64_t begin = 0;
  for (int group = 0; begin < count; ++group) {
    const std::int64_t wanted = 1 + static_cast<std::int64_t>(random() % (1 + static_cast<std::uint64_t>(count) / 3));
    const std::int64_t length = std::min(wanted, count - begin);
    shard.spans.push_back({0, group % groups, begin, length});
    begin += length + (group % 3 == 2 ? 5 : 0);
  }
  return shard;
}

const std::vector<GroupFactors> kGroups{{std::nullopt, 0.01}, {0.0, 0.02}, {0.3, 0.001}};

void step_on_host(const Optimizer& optimizer, Shard& shard, int step) {
  for (const DeviceSpan& span : shard.spans) {
    const GroupFactors& group = kGroups[static_cast<std::size_t>(span.group)];
    FlatSpan flat{.dtype = DType::float64,
                  .param = shard.param.data() + span.begin,
                  .grad = shard.grad.data() + span.begin,
                  .count = span.count,
                  .weight_decay = group.weight_decay};
    for (auto* state : {&shard.state0, &shard.state1})
      if (flat.state.size() < optimizer.state_names().size()) flat.state.push_back(state->data() + span.begin);
    optimizer.step(flat, step, group.lr, kScale);
  }
}

template <typename T>
std::vector<T> as(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}
template <typename T>
std::vector<double> in_double(const std::vector<T>& values) {
  return {values.begin(), values.end()};
}

double relative_error(const std::vector<double>& found, const std::vector<double>& expected) {
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    error += (found[i] - expected[i]) * (found[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  return norm == 0 ? std::sqrt(error) : std::sqrt(error / norm);
}

template <typename T>
struct DeviceShard {
  OnDevice<T> param, grad, state0, state1;
  OnDevice<std::uint16_t> rounded;

  DeviceShard(const Shard& shard, std::size_t offset)
      : param(as<T>(shard.param), offset),
        grad(as<T>(shard.grad), offset),
        state0(as<T>(shard.state0), offset),
        state1(as<T>(shard.state1), offset),
        rounded(std::vector<std::uint16_t>(shard.param.size()), offset) {}

  DeviceArrays arrays(DType rounded_dtype) const {
    return {param.data(), grad.data(), state0.data(), state1.data(), rounded.data(), rounded_dtype};
  }
  bool poison_is_there() const {
    return param.poison_is_there() && state0.poison_is_there() && state1.poison_is_there() && rounded.poison_is_there();
  }
};

template <typename T>
void expect_rounded(const DeviceShard<T>& found, const Shard& shard, DType dtype) {
  const auto values = found.param.values();
  const auto bits = found.rounded.values();
  for (const DeviceSpan& span : shard.spans)
    for (auto i = static_cast<std::size_t>(span.begin); i < static_cast<std::size_t>(span.begin + span.count); ++i) {
      const auto value = static_cast<float>(values[i]);
      const std::uint16_t expected = dtype == DType::bfloat16 ? to_bfloat16(value).bits : to_float16(value).bits;
      ASSERT_EQ(bits[i], expected) << "element " << i << " of " << bits.size() << ", value " << value;
    }
}

std::vector<OptimizerOptions> all_optimizers() {
  return {{.name = "sgd", .weight_decay = 0.1},
          {.name = "sgd", .weight_decay = 0.1, .momentum = 0.9},
          {.name = "adam", .weight_decay = 0.1},
          {.name = "adamw", .weight_decay = 0.1},
          {.name = "adadelta", .weight_decay = 0.1}};
}

// Several shards of odd sizes at once, a few steps.
template <typename T>
void check(const OptimizerOptions& options, std::size_t offset, DType rounded_dtype, std::uint64_t seed) {
  SCOPED_TRACE(options.name + ", offset " + std::to_string(offset) + ", seed " + std::to_string(seed));
  const auto optimizer = make_optimizer(options);
  std::mt19937_64 random(seed);
  std::vector<Shard> shards;
  for (const std::int64_t count : {0, 1, 3, 17, 255, 4099, 8192, 100003})
    shards.push_back(random_shard(count, static_cast<int>(kGroups.size()), random));
  std::vector<DeviceShard<T>> on_device;
  std::vector<DeviceArrays> arrays;
  std::vector<DeviceSpan> spans;
  for (const Shard& shard : shards) {
    for (DeviceSpan span : shard.spans) {
      span.array = static_cast<std::int32_t>(on_device.size());
      spans.push_back(span);
    }
    on_device.emplace_back(shard, offset);
    arrays.push_back(on_device.back().arrays(rounded_dtype));
  }
  DeviceTable table(spans);
  for (int step = 1; step <= kSteps; ++step) {
    optimizer->step(table, sizeof(T) == 4 ? DType::float32 : DType::float64, arrays, kGroups, step, kScale, nullptr);
    for (Shard& shard : shards) step_on_host(*optimizer, shard, step);
  }
  const double bound = sizeof(T) == 4 ? 2e-6 : 1e-14;
  for (std::size_t s = 0; s < shards.size(); ++s) {
    EXPECT_LE(relative_error(in_double(on_device[s].param.values()), shards[s].param), bound) << "shard " << s;
    EXPECT_LE(relative_error(in_double(on_device[s].state0.values()), shards[s].state0), bound) << "shard " << s;
    EXPECT_LE(relative_error(in_double(on_device[s].state1.values()), shards[s].state1), bound) << "shard " << s;
    EXPECT_TRUE(on_device[s].poison_is_there()) << "shard " << s;
    expect_rounded(on_device[s], shards[s], rounded_dtype);
  }
}

class DeviceStep : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!testing::has_gpu()) GTEST_SKIP() << "no GPU here";
  }
};

TEST_F(DeviceStep, IsTheHostsInFloat) {
  for (const OptimizerOptions& options : all_optimizers())
    for (const std::size_t offset : {0, 1, 8}) check<float>(options, offset, DType::bfloat16, 7 + offset);
}

TEST_F(DeviceStep, IsTheHostsInDouble) {
  for (const OptimizerOptions& options : all_optimizers())
    for (const std::size_t offset : {0, 3, 8}) check<double>(options, offset, DType::float16, 11 + offset);
}

TEST_F(DeviceStep, RoundsToFloatAndDoubleToo) {
  std::mt19937_64 random(3);
  const Shard shard = random_shard(1001, 1, random);
  const DeviceShard<float> single(shard, 0);
  const DeviceShard<double> twice(shard, 0);
  const OnDevice<double> to_double(std::vector<double>(1001));
  const OnDevice<float> to_float(std::vector<float>(1001));
  DeviceArrays a = single.arrays(DType::float64), b = twice.arrays(DType::float32);
  a.rounded = to_double.data();
  b.rounded = to_float.data();
  DeviceTable table(std::vector<DeviceSpan>{{0, 0, 0, 1001}});
  const auto optimizer = make_optimizer({.name = "adamw"});
  optimizer->step(table, DType::float32, std::vector{a}, kGroups, 1, kScale, nullptr);
  optimizer->step(table, DType::float64, std::vector{b}, kGroups, 1, kScale, nullptr);
  EXPECT_EQ(to_double.values(), in_double(single.param.values()));
  EXPECT_EQ(to_float.values(), as<float>(twice.param.values()));
}

TEST_F(DeviceStep, AShardWithoutAGradientStaysAsItIs) {
  std::mt19937_64 random(5);
  const Shard shard = random_shard(100, 1, random);
  const DeviceShard<float> there(shard, 0);
  DeviceArrays arrays = there.arrays(DType::bfloat16);
  arrays.grad = nullptr;
  DeviceTable table(std::vector<DeviceSpan>{{0, 0, 0, 100}});
  make_optimizer({.name = "adamw"})->step(table, DType::float32, std::vector{arrays}, kGroups, 1, kScale, nullptr);
  EXPECT_EQ(there.param.values(), as<float>(shard.param));
  EXPECT_EQ(there.state0.values(), as<float>(shard.state0));
}

TEST_F(DeviceStep, OfNoSpansDoesNothing) {
  DeviceTable table(std::vector<DeviceSpan>{});
  make_optimizer({.name = "sgd"})->step(table, DType::float32, {}, kGroups, 1, kScale, nullptr);
}

// AdamW over the shards of two ranks, with a bfloat16 copy: 30 bytes an element.
TEST_F(DeviceStep, DISABLED_Speed) {
  struct Model {
    const char* name;
    std::int64_t units, elements;
  };
  for (const auto& [name, units, elements] :
       {Model{"GPT-2 124M", 13, 62'000'000}, Model{"GPT-2 1.5B", 49, 780'000'000}}) {
    const std::int64_t each = elements / units / 4 * 4;
    const std::vector<float> zeros(static_cast<std::size_t>(each), 0.5F);
    std::vector<OnDevice<float>> memory;
    std::vector<OnDevice<std::uint16_t>> rounded;
    std::vector<DeviceArrays> arrays;
    std::vector<DeviceSpan> spans;
    for (std::int32_t unit = 0; unit < units; ++unit) {
      for (int i = 0; i < 4; ++i) memory.emplace_back(zeros);
      rounded.emplace_back(std::vector<std::uint16_t>(static_cast<std::size_t>(each)));
      const auto* const m = &memory[memory.size() - 4];
      arrays.push_back({m[0].data(), m[1].data(), m[2].data(), m[3].data(), rounded.back().data(), DType::bfloat16});
      for (std::int64_t part = 0; part < 12; ++part)  // as norms and biases cut it
        spans.push_back(
            {unit, static_cast<std::int32_t>(part % 2), each * part / 12, each * (part + 1) / 12 - each * part / 12});
    }
    DeviceTable table(spans);
    const auto optimizer = make_optimizer({.name = "adamw", .weight_decay = 0.1});
    const double ms =
        testing::milliseconds([&] { optimizer->step(table, DType::float32, arrays, kGroups, 10, kScale, nullptr); });
    std::printf("adamw, %s on 2 ranks: %.3f ms a step, %.0f GB/s\n", name, ms,
                30e-6 * static_cast<double>(each * units) / ms);
  }
}

}  // namespace
}  // namespace shoal::optim

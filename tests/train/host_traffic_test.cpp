// What goes between host and device in a step: batches that are only queued, and losses that are read while the device
// goes on.
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "data/loader.h"
#include "support/gpu.h"
#include "train/device.h"
#include "train/host_scalar.h"

namespace shoal::train {
namespace {

TEST(HostScalar, HasTheValueOfAnyType) {
  for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16})
    EXPECT_EQ(HostScalar(at::full({}, 0.375, type)).value(), 0.375) << c10::toString(type);
}

TEST(HostScalar, IsNotChangedByWhatComesAfter) {
  at::Tensor weight = at::full({}, 2.0).set_requires_grad(true);
  const at::Tensor loss = weight * weight;
  const HostScalar value(loss);
  loss.backward();
  EXPECT_EQ(value.value(), 4);
}

// Work for a second or so, and its end.
c10::Event keep_busy(at::Device device) {
  at::Tensor a = at::full({4096, 4096}, 1e-3, at::TensorOptions(device));
  for (int i = 0; i < 200; ++i) a = a.matmul(a).clamp(0, 1e-3);
  c10::Event end(device.type());
  end.record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  return end;
}

class OnAGpu : public ::testing::Test {
 protected:
  void SetUp() override { SHOAL_SKIP_WITHOUT_GPU(); }
  const at::Device device_{at::kCUDA, 0};
};

TEST_F(OnAGpu, ALossIsReadWhileTheDeviceGoesOn) {
  keep_busy(device_).synchronize();  // what is made at the first call
  const HostScalar value(at::full({}, 0.375, at::TensorOptions(device_)));
  const c10::Event end = keep_busy(device_);
  EXPECT_EQ(value.value(), 0.375);
  EXPECT_FALSE(end.query()) << "it waited for what was queued after it";
}

constexpr std::int64_t kBatches = 40;

class Counting final : public data::Dataset {
 public:
  std::int64_t size() const override { return 64; }
  std::uint32_t fingerprint() const override { return 0; }
  data::Batch batch(std::span<const std::int64_t> indices) const override {
    return {at::full({64, 64}, static_cast<double>(indices.front())), at::full({64}, indices.front(), at::kLong)};
  }
};

// Batches are dropped as soon as they are queued, and their memory is used for later ones: none may be overwritten
// before the device has it.
TEST_F(OnAGpu, BatchesAreQueuedAndArriveWhole) {
  const Counting samples;
  const auto next = [number = std::int64_t{0}]() mutable -> std::optional<data::BatchRequest> {
    if (number == kBatches) return std::nullopt;
    return data::BatchRequest{.indices = {number++}};
  };
  data::Loader loader(samples, next, /*depth=*/2, batch_memory(device_));
  keep_busy(device_).synchronize();
  const c10::Event end = keep_busy(device_);
  std::vector<data::Batch> there;
  while (const auto batch = loader.next()) there.push_back(to_device(*batch, device_, at::kFloat));
  EXPECT_FALSE(end.query()) << "a copy waited for the device";
  ASSERT_EQ(std::ssize(there), kBatches);
  for (std::int64_t i = 0; i < kBatches; ++i) {
    const auto& batch = there[static_cast<std::size_t>(i)];
    EXPECT_TRUE(batch.inputs.eq(static_cast<double>(i)).all().item<bool>()) << i;
    EXPECT_TRUE(batch.targets.eq(i).all().item<bool>()) << i;
  }
}

}  // namespace
}  // namespace shoal::train

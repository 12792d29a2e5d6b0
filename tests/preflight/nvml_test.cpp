// What is read from the driver's library, with one that stands in for it (fake_nvml.cpp).
#include <gtest/gtest.h>

#include "preflight/gpus.h"

namespace shoal::preflight {
namespace {

TEST(Nvml, ReadsEveryGpuThatTheJobMayUse) {
  const GpuReading reading = read_gpus();
  ASSERT_EQ(reading.gpus.size(), 2u) << reading.none;
  const GpuState& well = reading.gpus[0];
  EXPECT_EQ(well.uuid, "GPU-a");
  EXPECT_EQ(well.name, "Fake 1");
  EXPECT_EQ(well.pci, "00000000:1B:00.0");
  EXPECT_EQ(well.driver, "580.1");
  EXPECT_FALSE(well.ecc_uncorrected) << "not supported";
  EXPECT_FALSE(well.retirement_pending);
  EXPECT_EQ(well.slow_reasons, 0u) << "idle is no trouble";
  EXPECT_EQ(well.temperature, 31);
  EXPECT_EQ(well.slow_temperature, 87);
  EXPECT_EQ(well.used_bytes, 500.0 * (1 << 20));
  EXPECT_EQ(judge_gpu(well).verdict, Verdict::ok) << judge_gpu(well).found;
}

TEST(Nvml, SeesWhatIsIll) {
  const GpuReading reading = read_gpus();
  ASSERT_EQ(reading.gpus.size(), 2u);
  const GpuState& ill = reading.gpus[1];
  EXPECT_EQ(ill.ecc_uncorrected, 5u);
  EXPECT_TRUE(ill.retirement_pending);
  EXPECT_TRUE(ill.remap_failed);
  EXPECT_EQ(ill.slow_reasons, kHardwareThermal);
  EXPECT_EQ(ill.processes, 2);
  const Record record = judge_gpu(ill);
  EXPECT_EQ(record.verdict, Verdict::fail);
  EXPECT_EQ(record.found,
            "Fake 1 (00000000:1C:00.0): a broken row of memory has no spare, 5 uncorrected memory errors (ECC), broken "
            "memory waits to be replaced, its clocks are lowered because it is hot, 86 °C idle, it slows down at 87, "
            "40.0 of 80.0 GiB are in use by 2 other processes");
}

}  // namespace
}  // namespace shoal::preflight

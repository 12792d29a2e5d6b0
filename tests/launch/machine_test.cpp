#include "launch/machine.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <cstdlib>
#include <thread>

#include "launch/number_ranges.h"

namespace shoal::launch {
namespace {

using Numbers = std::vector<int>;

// Two nodes of memory with two cores and a GPU each, whatever this computer has.
class TwoSockets : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("HWLOC_XMLFILE", SHOAL_TWO_SOCKETS, 1);
    setenv("HWLOC_THISSYSTEM", "1", 1);
  }
  void TearDown() override {
    unsetenv("HWLOC_XMLFILE");
    unsetenv("HWLOC_THISSYSTEM");
  }
};

TEST_F(TwoSockets, CpusHaveTheirMemory) {
  const Machine machine;
  const CpuPlace second = machine.of({2, 3});
  EXPECT_EQ(second.numa, Numbers{1});
  EXPECT_EQ(second.cores, 2);
  EXPECT_EQ(second.machine_cpus, 4);
  EXPECT_EQ(machine.of({1, 2}).numa, (Numbers{0, 1}));
  EXPECT_EQ(machine.of({1, 99}).cpus, Numbers{1}) << "99 is no CPU of the machine";
}

TEST_F(TwoSockets, GpusHaveTheirMemory) {
  const Machine machine;
  EXPECT_EQ(machine.numa_of_pci("0000:1b:00.0"), Numbers{0});
  EXPECT_EQ(machine.numa_of_pci("0000:9A:00.0"), Numbers{1}) << "as CUDA writes it";
  EXPECT_EQ(machine.numa_of_pci("0000:44:00.0"), Numbers{});
  EXPECT_EQ(machine.numa_of_pci("nonsense"), Numbers{});
}

TEST(Machine, HereIsTheMaskOfThisThread) {
  std::thread([] {
    const CpuPlace before = Machine().here();
    ASSERT_FALSE(before.cpus.empty());
    EXPECT_GE(before.machine_cpus, static_cast<int>(before.cpus.size()));
    EXPECT_GE(before.cores, 1);
    EXPECT_FALSE(before.numa.empty());
    cpu_set_t mask;
    CPU_ZERO(&mask);
    CPU_SET(static_cast<std::size_t>(before.cpus.back()), &mask);
    ASSERT_EQ(sched_setaffinity(0, sizeof mask, &mask), 0);
    const CpuPlace bound = Machine().here();
    EXPECT_EQ(bound.cpus, Numbers{before.cpus.back()});
    EXPECT_EQ(bound.cores, 1);
    EXPECT_EQ(bound.machine_cpus, before.machine_cpus);
  }).join();
}

TEST(NumberRanges, AreShortAndLoseNothingUnlessTheySayHowMany) {
  EXPECT_EQ(ranges_text({}), "");
  EXPECT_EQ(ranges_text({7}), "7");
  EXPECT_EQ(ranges_text({0, 1, 2, 5, 8, 9}), "0-2,5,8-9");
  Numbers strided;
  for (int i = 0; i < 128; ++i) strided.push_back(8 * i);
  EXPECT_EQ(ranges_text(strided), "0,8,...,1016 (128)");
  EXPECT_EQ(ranges_text({1, 3, 5}, 2), "1,3,5") << "nothing to leave out";
}

}  // namespace
}  // namespace shoal::launch

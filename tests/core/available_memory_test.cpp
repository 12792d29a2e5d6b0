#include "core/available_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "support/temporary_folder.h"

namespace shoal {
namespace {

// A computer with 1000 KiB to spare, in which a job lives in group /slurm/job_1/step_0.
class Computer {
 public:
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((folder_.path() / name).parent_path());
    std::ofstream(folder_.path() / name) << text;
  }
  std::optional<std::int64_t> available() const { return available_memory(folder_.path()); }

 private:
  testing::TemporaryFolder folder_;
};

constexpr const char* kMeminfo = "MemTotal:       9000 kB\nMemFree:  10 kB\nMemAvailable:    1000 kB\nBuffers: 5 kB\n";
constexpr std::int64_t kFree = 1000 * 1024;

TEST(AvailableMemory, OfThisComputerIsLessThanItHas) {
  const auto available = available_memory();
  ASSERT_TRUE(available);
  EXPECT_GT(*available, 0);
  EXPECT_LE(*available, static_cast<std::int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE));
}

TEST(AvailableMemory, IsUnknownWhereTheKernelDoesNotTell) {
  const Computer computer;
  EXPECT_FALSE(computer.available());
  computer.write("proc/meminfo", "MemTotal: 9000 kB\n");
  EXPECT_FALSE(computer.available());
}

TEST(AvailableMemory, IsAllThatIsFreeWithoutALimit) {
  const Computer computer;
  computer.write("proc/meminfo", kMeminfo);
  EXPECT_EQ(computer.available(), kFree);
  computer.write("proc/self/cgroup", "0::/slurm/job_1/step_0\n");
  EXPECT_EQ(computer.available(), kFree);
  computer.write("sys/fs/cgroup/slurm/job_1/step_0/memory.max", "max\n");
  computer.write("sys/fs/cgroup/slurm/job_1/step_0/memory.current", "5000\n");
  EXPECT_EQ(computer.available(), kFree);
}

TEST(AvailableMemory, IsWhatTheNarrowestGroupAboveLeaves) {
  const Computer computer;
  computer.write("proc/meminfo", kMeminfo);
  computer.write("proc/self/cgroup", "0::/slurm/job_1/step_0\n");
  computer.write("sys/fs/cgroup/slurm/job_1/step_0/memory.max", "800000\n");
  computer.write("sys/fs/cgroup/slurm/job_1/step_0/memory.current", "100000\n");
  EXPECT_EQ(computer.available(), 700000);
  computer.write("sys/fs/cgroup/slurm/job_1/memory.max", "500000\n");
  computer.write("sys/fs/cgroup/slurm/job_1/memory.current", "150000\n");
  EXPECT_EQ(computer.available(), 350000);
  computer.write("sys/fs/cgroup/slurm/job_1/memory.current", "600000\n");
  EXPECT_EQ(computer.available(), 0);
}

TEST(AvailableMemory, KnowsGroupsOfTheFirstVersion) {
  const Computer computer;
  computer.write("proc/meminfo", kMeminfo);
  computer.write("proc/self/cgroup", "3:cpu,cpuacct:/other\n2:hugetlb,memory:/slurm/job_1\n");
  computer.write("sys/fs/cgroup/memory/slurm/job_1/memory.limit_in_bytes", "9223372036854771712\n");
  computer.write("sys/fs/cgroup/memory/slurm/job_1/memory.usage_in_bytes", "1\n");
  EXPECT_EQ(computer.available(), kFree);
  computer.write("sys/fs/cgroup/memory/slurm/job_1/memory.limit_in_bytes", "4096\n");
  EXPECT_EQ(computer.available(), 4095);
}

}  // namespace
}  // namespace shoal

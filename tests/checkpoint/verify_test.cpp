// Any number of threads finds the same.
#include "checkpoint/verify.h"

#include <gtest/gtest.h>

#include "checkpoint/catalog.h"
#include "checkpoint/sample_state.h"
#include "core/error.h"

namespace shoal::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryDirectory;
using testing::write_sample;

std::string text_of(const VerifyReport& report) {
  std::string text = fmt::format("{} bytes\n", report.bytes);
  for (const FileCheck& file : report.files)
    for (const Problem& problem : file.problems) {
      text += fmt::format("{} {}: {}", file.name, file.index, problem.text);
      if (problem.region)
        text += fmt::format(" [{} {} {} {}]", problem.region->tensor, problem.region->begin, problem.region->count,
                            problem.region->shard);
      text += "\n";
    }
  for (const std::string& problem : report.problems) text += problem + "\n";
  return text;
}

TEST(Verify, ThreadsFindTheSameInTheSameOrder) {
  const TemporaryDirectory directory;
  const fs::path checkpoint = write_sample(directory.path(), 1, 7, 3);
  const Manifest manifest = read_manifest(checkpoint);
  EXPECT_EQ(verify(checkpoint, 5).problem_count(), 0);
  for (int file = 1; file < 7; ++file)
    for (std::int64_t at = 100; at < manifest.files[static_cast<std::size_t>(file)].bytes; at += 97)
      testing::flip_bit(checkpoint / manifest.files[static_cast<std::size_t>(file)].name, at);
  fs::resize_file(checkpoint / manifest.files[4].name, 50);
  const std::string serial = text_of(verify(checkpoint));
  EXPECT_NE(serial.find("_rank_00004.h5 has 50 bytes"), std::string::npos) << serial;
  for (const int workers : {2, 3, 16}) EXPECT_EQ(text_of(verify(checkpoint, workers)), serial) << workers;
}

// Damage anywhere in a file: where elements are meant, it is these.
TEST(Verify, ADamagedRegionIsNamed) {
  const std::vector<testing::SampleTensor> tensors{{"model/w", DType::int64, {10, 3}, "u"}};
  const TemporaryDirectory directory;
  const fs::path checkpoint = write_sample(directory.path(), 1, 4, 3, tensors);
  const Manifest manifest = read_manifest(checkpoint);
  int found = 0;
  for (std::int64_t at = 0; at < manifest.files[2].bytes; at += 8) {
    testing::flip_bit(checkpoint / manifest.files[2].name, at);
    const VerifyReport report = verify(checkpoint, 2);
    testing::flip_bit(checkpoint / manifest.files[2].name, at);
    for (const Problem& problem : report.files[2].problems) {
      if (!problem.region) continue;
      EXPECT_EQ(problem.region->tensor, "model/w");
      EXPECT_EQ(problem.region->begin, 16);
      EXPECT_EQ(problem.region->count, 8);
      EXPECT_EQ(problem.region->shard, 2);
      ++found;
    }
  }
  EXPECT_GE(found, 8);  // each element, and what leads to them
}

TEST(Verify, MoreThreadsThanRegions) {
  const TemporaryDirectory directory;
  const fs::path checkpoint = write_sample(directory.path(), 1, 1, 3, {{"model/w", DType::float32, {3}, "u"}});
  EXPECT_EQ(verify(checkpoint, 32).problem_count(), 0);
  EXPECT_EQ(verify(checkpoint, 32).bytes, 12);
}

}  // namespace
}  // namespace shoal::checkpoint

// Whatever happens to the files of a checkpoint is either harmless or told.
#include <gtest/gtest.h>

#include <fstream>
#include <functional>

#include "checkpoint/catalog.h"
#include "checkpoint/file_names.h"
#include "checkpoint/sample_state.h"
#include "checkpoint/shard_reader.h"
#include "checkpoint/verify.h"
#include "core/error.h"
#include "core/file_io.h"

namespace shoal::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryDirectory;
using testing::write_sample;

std::string first_problem(const fs::path& checkpoint) {
  try {
    return verify(checkpoint).first_problem();
  } catch (const CheckpointError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::checkpoint);
    return error.what();
  }
}

fs::path shard(const fs::path& checkpoint, int rank) {
  return checkpoint / read_manifest(checkpoint).files.at(static_cast<std::size_t>(rank)).name;
}

// Every element as it was written?
bool reads_as_written(const fs::path& checkpoint, int salt) {
  const Manifest manifest = open_checkpoint(checkpoint);
  bool same = true;
  for (std::size_t i = 0; i < manifest.files.size(); ++i) {
    ShardReader reader(checkpoint, manifest, i);
    for (std::size_t region = 0; region < reader.regions().size(); ++region) {
      const TensorSpec& spec = manifest.tensors[reader.regions()[region].tensor].spec;
      const std::byte mask = spec.dtype == DType::boolean ? std::byte{1} : std::byte{0x3F};
      reader.read(region, [&](std::int64_t offset, const std::byte* data, std::size_t bytes) {
        for (std::size_t b = 0; b < bytes; ++b)
          same &= data[b] == (testing::sample_byte(salt, spec.name, offset + static_cast<std::int64_t>(b)) & mask);
      });
    }
  }
  return same;
}

void resize(const fs::path& file, std::int64_t bytes) { fs::resize_file(file, static_cast<std::uintmax_t>(bytes)); }

class Damage : public ::testing::Test {
 protected:
  TemporaryDirectory directory_;
  fs::path checkpoint_ = write_sample(directory_.path(), 7, 3, 5);
};

TEST_F(Damage, NoneIsSound) {
  EXPECT_EQ(first_problem(checkpoint_), "");
  EXPECT_TRUE(reads_as_written(checkpoint_, 5));
  const VerifyReport report = verify(checkpoint_);
  EXPECT_EQ(report.bytes, read_manifest(checkpoint_).tensor_bytes());
  EXPECT_EQ(report.files.size(), 3u);
}

TEST_F(Damage, WrongMagic) {
  const fs::path file = shard(checkpoint_, 1);
  std::fstream(file, std::ios::in | std::ios::out | std::ios::binary).write("not HDF5", 8);
  EXPECT_NE(first_problem(checkpoint_).find(file.filename().string()), std::string::npos);
}

TEST_F(Damage, TruncatedShard) {
  const fs::path file = shard(checkpoint_, 1);
  const auto bytes = static_cast<std::int64_t>(fs::file_size(file));
  for (const std::int64_t kept : {bytes - 1, bytes / 2, std::int64_t{100}, std::int64_t{0}}) {
    resize(file, kept);
    EXPECT_NE(first_problem(checkpoint_).find(file.filename().string()), std::string::npos) << kept;
    EXPECT_THROW(open_checkpoint(checkpoint_), CheckpointError) << kept;
  }
}

TEST_F(Damage, MissingShard) {
  const fs::path file = shard(checkpoint_, 2);
  fs::remove(file);
  EXPECT_NE(first_problem(checkpoint_).find(file.filename().string()), std::string::npos);
}

TEST_F(Damage, ShardOfAnotherCheckpoint) {
  const fs::path other = write_sample(directory_.path(), 8, 3, 5);
  fs::copy_file(shard(other, 1), shard(checkpoint_, 1), fs::copy_options::overwrite_existing);
  EXPECT_NE(first_problem(checkpoint_).find("belongs to checkpoint"), std::string::npos);
}

TEST_F(Damage, ShardOfAnotherRank) {
  const fs::path square = write_sample(directory_.path(), 9, 2, 5, {{"model/w", DType::float32, {2, 2}, "u"}});
  fs::copy_file(shard(square, 1), shard(square, 0), fs::copy_options::overwrite_existing);
  EXPECT_NE(first_problem(square).find("the manifest says step 9 and file 0 of 2"), std::string::npos);
}

// Metadata of HDF5, data, table, slack between them: each bit is either noticed or means nothing.
TEST_F(Damage, FlippedBitsOfAShard) {
  const fs::path file = shard(checkpoint_, 1);
  const auto bytes = static_cast<std::int64_t>(fs::file_size(file));
  std::int64_t noticed = 0, flipped = 0;
  for (std::int64_t offset = 0; offset < bytes; offset += 7, ++flipped) {
    const int bit = static_cast<int>(offset % 8);
    testing::flip_bit(file, offset, bit);
    if (first_problem(checkpoint_).empty())
      EXPECT_TRUE(reads_as_written(checkpoint_, 5)) << "byte " << offset;
    else
      ++noticed;
    testing::flip_bit(file, offset, bit);
  }
  EXPECT_GT(noticed, flipped / 4);
  EXPECT_EQ(first_problem(checkpoint_), "");
}

TEST_F(Damage, FlippedBitsOfElementsNameTheTensor) {
  const Manifest manifest = read_manifest(checkpoint_);
  std::string text = read_text_file(shard(checkpoint_, 0));
  // The float64 values of rank 0 lie where their bytes are found.
  std::string wanted;
  for (std::int64_t i = 0; i < 8; ++i)
    wanted += static_cast<char>(testing::sample_byte(5, "model/double", i) & std::byte{0x3F});
  const std::size_t at = text.find(wanted);
  ASSERT_NE(at, std::string::npos);
  testing::flip_bit(shard(checkpoint_, 0), static_cast<std::int64_t>(at) + 3, 6);
  const std::string problem = first_problem(checkpoint_);
  EXPECT_NE(problem.find("tensor 'model/double', elements 0 to 0"), std::string::npos) << problem;
  EXPECT_NE(problem.find("_rank_00000.h5"), std::string::npos) << problem;
}

TEST_F(Damage, FlippedBitsOfManifestAndCommit) {
  for (const char* name : {kManifestName, kCommitName}) {
    const fs::path file = checkpoint_ / name;
    const auto bytes = static_cast<std::int64_t>(fs::file_size(file));
    for (std::int64_t offset = 0; offset < bytes; offset += 3) {
      testing::flip_bit(file, offset, static_cast<int>(offset % 8));
      EXPECT_THROW(open_checkpoint(checkpoint_), CheckpointError) << name << " byte " << offset;
      testing::flip_bit(file, offset, static_cast<int>(offset % 8));
    }
  }
  EXPECT_EQ(first_problem(checkpoint_), "");
}

TEST_F(Damage, TruncatedManifestAndCommit) {
  for (const char* name : {kCommitName, kManifestName}) {
    const fs::path file = checkpoint_ / name;
    resize(file, static_cast<std::int64_t>(fs::file_size(file)) - 1);
    EXPECT_THROW(open_checkpoint(checkpoint_), CheckpointError) << name;
    resize(file, 0);
    EXPECT_THROW(open_checkpoint(checkpoint_), CheckpointError) << name;
  }
}

}  // namespace
}  // namespace shoal::checkpoint

// Collective writes on the ranks of a job, and what happens where one of them fails.
#include "hdf5/mpio.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <numeric>

#include "core/error.h"
#include "core/file_io.h"
#include "hdf5/dataset.h"
#include "hdf5/datatype.h"

namespace shoal::hdf5 {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kRows = 7, kColumns = 5;

class MpioWrites : public ::testing::Test {
 protected:
  MpioWrites() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
    int number = ::getpid();
    MPI_Bcast(&number, 1, MPI_INT, 0, MPI_COMM_WORLD);
    path_ = fs::temp_directory_path() / fmt::format("shoal_mpio_{}.h5", number);
  }
  ~MpioWrites() override {
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank_ == 0) fs::remove(path_);
  }

  // Collective. Two datasets, laid out by rank 0.
  void lay_out() {
    if (rank_ == 0) {
      make_file_with_hints(path_, stripe_hints(std::int64_t{2} << 30));
      File file = File::create_in_memory(path_.string());
      table_ = create_contiguous(file, "/deep/table", file_type(DType::int32).get(), {kRows, kColumns});
      scalar_ = create_contiguous(file, "/scalar", file_type(DType::int64).get(), {});
      OutputFile output = OutputFile::open_existing(path_);
      output.resize(file.close_into(
          [&](std::int64_t offset, const void* data, std::size_t bytes) { output.write_at(offset, data, bytes); }));
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }

  std::vector<std::int32_t> first_row() const {
    std::vector<std::int32_t> row(kColumns);
    InputFile(path_).read_at(table_.file_offset, row.data(), row.size() * sizeof(std::int32_t));
    return row;
  }

  int rank_ = 0, ranks_ = 1;
  fs::path path_;
  Placement table_, scalar_;  // rank 0's
};

// Rows by turns, the last rank none: as slabs that are no single piece.
TEST_F(MpioWrites, EveryRankItsPart) {
  if (!has_mpio()) GTEST_SKIP() << "built without parallel HDF5";
  lay_out();
  MpioFile file(path_, MPI_COMM_WORLD, {});
  std::vector<Hyperslab> slabs;
  std::vector<std::int32_t> values;
  const int writers = std::max(1, ranks_ - 1);
  for (std::int64_t row = 0; row < kRows; ++row) {
    if (row % writers != rank_) continue;
    slabs.push_back({{row, 0}, {1, kColumns}});
    for (std::int64_t column = 0; column < kColumns; ++column)
      values.push_back(static_cast<std::int32_t>(row * kColumns + column));
  }
  file.write("/deep/table", DType::int32, slabs, values.data());
  const std::int64_t seven = 7;
  const std::vector<Hyperslab> whole(1), nothing;
  file.write("/scalar", DType::int64, rank_ == 0 ? whole : nothing, &seven);
  EXPECT_TRUE(file.all_collective());
  file.close();
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank_ != 0) return;
  std::vector<std::int32_t> found(kRows * kColumns), expected(kRows * kColumns);
  std::iota(expected.begin(), expected.end(), 0);
  const InputFile input(path_);
  input.read_at(table_.file_offset, found.data(), found.size() * sizeof(std::int32_t));
  EXPECT_EQ(found, expected);
  std::int64_t scalar = 0;
  input.read_at(scalar_.file_offset, &scalar, sizeof(scalar));
  EXPECT_EQ(scalar, seven);
}

TEST_F(MpioWrites, AnUnknownDatasetIsAnErrorOnAll) {
  if (!has_mpio()) GTEST_SKIP() << "built without parallel HDF5";
  lay_out();
  MpioFile file(path_, MPI_COMM_WORLD, {});
  EXPECT_THROW(file.write("/missing", DType::int32, {}, nullptr), Hdf5Error);
}

// The limit on file sizes stands for a full disk. Nobody stays behind, which the test's time limit would tell. Open
// MPI 4.1's own MPI-IO tells no rank of several that such a write has failed (ROMIO does): whoever writes reads back.
TEST_F(MpioWrites, AFailingWriteLeavesNobodyBehind) {
  if (!has_mpio()) GTEST_SKIP() << "built without parallel HDF5";
  lay_out();
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  rlimit low = before;
  low.rlim_cur = 16;
  int failed = 0;
  {
    MpioFile file(path_, MPI_COMM_WORLD, {});
    ::setrlimit(RLIMIT_FSIZE, &low);
    const std::vector<std::int32_t> row(kColumns, 1);
    std::vector<Hyperslab> slabs;
    if (rank_ < kRows) slabs.push_back({{rank_, 0}, {1, kColumns}});
    try {
      file.write("/deep/table", DType::int32, slabs, row.data());
    } catch (const Hdf5Error&) {
      failed = 1;
    }
    ::setrlimit(RLIMIT_FSIZE, &before);
  }
  MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  EXPECT_TRUE(failed > 0 || ranks_ > 1);
  if (rank_ != 0) return;
  EXPECT_NE(first_row(), std::vector<std::int32_t>(kColumns, 1)) << "the limit did not strike";
}

TEST(MpioHints, MoreStripesForLargerFiles) {
  EXPECT_TRUE(stripe_hints(1 << 20).empty());
  const auto factor = [](std::int64_t bytes) { return stripe_hints(bytes).at(0).second; };
  constexpr std::int64_t kGigabyte = 1'000'000'000;
  EXPECT_EQ(factor(kGigabyte), "8");
  EXPECT_EQ(factor(10 * kGigabyte), "24");
  EXPECT_EQ(factor(200 * kGigabyte), "72");
}

TEST(NoMpio, IsAnErrorThatTellsWhatToDo) {
  if (has_mpio()) GTEST_SKIP() << "built with parallel HDF5";
  try {
    require_mpio("--output-driver mpio");
    FAIL();
  } catch (const OptionError& error) {
    EXPECT_NE(std::string(error.what()).find("libhdf5-openmpi-dev"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace shoal::hdf5

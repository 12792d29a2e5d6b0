// A file that all ranks write at once is the one that a single process writes, byte for byte, whoever saved the
// checkpoint; what goes wrong on a rank is one error on all.
#include "checkpoint/collective_export.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <optional>
#include <set>
#include <system_error>

#include "checkpoint/catalog.h"
#include "checkpoint/output_lock.h"
#include "checkpoint/sample_state.h"
#include "core/error.h"
#include "core/file_calls.h"
#include "core/file_io.h"
#include "hdf5/mpio.h"

namespace shoal::checkpoint {
namespace {

namespace fs = std::filesystem;

// A folder that all ranks know of; rank 0 makes and removes it.
class CollectiveExportFile : public ::testing::Test {
 protected:
  CollectiveExportFile() {
    world_.set_timeout(std::chrono::seconds(20));
    const char* const shared = std::getenv("SHOAL_SHARED_FOLDER");  // of several nodes
    const fs::path above = shared != nullptr ? fs::path(shared) : fs::temp_directory_path();
    folder_ = above / comm::broadcast_bytes(world_, fmt::format("shoal_collective_{}", ::getpid()));
    on_rank0([&] { fs::create_directory(folder_); });
  }
  ~CollectiveExportFile() override {
    on_rank0([&] { fs::remove_all(folder_); });
  }

  template <typename Body>
  void on_rank0(const Body& body) {
    world_.barrier();
    if (world_.rank() == 0) body();
    world_.barrier();
  }
  ExportOptions options(const fs::path& checkpoint, const char* name) const {
    ExportOptions options;
    options.checkpoint = checkpoint;
    options.output = folder_ / name;
    options.force = true;
    options.piece_bytes = kCollectivePieceBytes;
    return options;
  }
  // Collective. What the checkpoint gives with the options of `change`, both ways.
  template <typename Change>
  void expect_same(const fs::path& checkpoint, const Change& change) {
    ExportOptions all = options(checkpoint, "all.h5"), one = options(checkpoint, "one.h5");
    change(all);
    change(one);
    const ExportReport report = export_collectively(world_, all);
    on_rank0([&] {
      const ExportReport expected = export_checkpoint(one);
      EXPECT_EQ(report.tensors, expected.tensors);
      EXPECT_EQ(report.bytes, expected.bytes);
      EXPECT_TRUE(read_text_file(all.output) == read_text_file(one.output));
      EXPECT_FALSE(fs::exists(part_of(all)));
    });
  }
  static std::set<std::string> names_in(const fs::path& folder) {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename().string());
    return names;
  }
  static fs::path part_of(const ExportOptions& options) { return options.output.string() + ".part"; }
  // Collective. A checkpoint that `ranks` ranks have saved.
  fs::path sample(int ranks) {
    on_rank0([&] { testing::write_sample(folder_ / fmt::format("of_{}", ranks), 7, ranks, 5); });
    return folder_ / fmt::format("of_{}", ranks) / "step_00000007";
  }
  template <typename Failure>
  void expect_failure(const ExportOptions& wanted, const char* text) {
    try {
      export_collectively(world_, wanted);
      ADD_FAILURE() << "no error";
    } catch (const Failure& error) {
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    }
    on_rank0([&] {
      std::error_code missing;
      for (const auto& entry : fs::directory_iterator(wanted.output.parent_path(), missing))
        EXPECT_FALSE(entry.path().filename().string().starts_with(wanted.output.filename().string())) << entry.path();
    });
  }

  comm::MpiProcessGroup world_{MPI_COMM_WORLD};
  fs::path folder_;
};

// Pieces of 40 bytes cut rows and shards anywhere; a rank has several in one tensor and none in another.
TEST_F(CollectiveExportFile, IsWhatOneProcessWrites) {
  if (!hdf5::has_mpio()) GTEST_SKIP() << "built without parallel HDF5";
  for (const int ranks : {1, 3, 7}) {
    const fs::path checkpoint = sample(ranks);
    for (const std::int64_t piece_bytes : {std::int64_t{40}, kCollectivePieceBytes})
      expect_same(checkpoint, [&](ExportOptions& wanted) {
        wanted.selection.with_optimizer = true;
        wanted.piece_bytes = piece_bytes;
      });
  }
}

TEST_F(CollectiveExportFile, InOtherElementTypesToo) {
  if (!hdf5::has_mpio()) GTEST_SKIP() << "built without parallel HDF5";
  const fs::path checkpoint = sample(2);
  for (const DType dtype : {DType::bfloat16, DType::float16, DType::float32})
    expect_same(checkpoint, [&](ExportOptions& wanted) {
      wanted.selection.dtype = dtype;
      wanted.piece_bytes = 200;
    });
}

TEST_F(CollectiveExportFile, ReplacesWhatIsThere) {
  if (!hdf5::has_mpio()) GTEST_SKIP() << "built without parallel HDF5";
  const fs::path checkpoint = sample(2);
  on_rank0([&] {
    for (const char* name : {"all.h5", "all.h5.part", "all.h5.part.journal", "all.h5.part.journal.1",
                             "all.h5.part.0123456789abcdef", "all.h5.partial"})
      write_text_file(folder_ / name, "left by a killed export");
  });
  expect_same(checkpoint, [](ExportOptions&) {});
  on_rank0([&] {
    EXPECT_EQ(names_in(folder_), (std::set<std::string>{"all.h5", "all.h5.partial", "of_2", "one.h5"}));
  });
}

TEST_F(CollectiveExportFile, DamageOnOneRankIsAnErrorOnAll) {
  if (!hdf5::has_mpio()) GTEST_SKIP() << "built without parallel HDF5";
  const fs::path checkpoint = sample(3);
  on_rank0([&] {
    const std::string file = (checkpoint / read_manifest(checkpoint).files[2].name).string();
    const StateDict whole = testing::sample_state({{"model/half", DType::float16, {13}, ""}}, 0, 1, 5);
    const std::string wanted(reinterpret_cast<const char*>(whole.tensors[0].region.data) + 22, 4);
    const std::size_t at = read_text_file(file).find(wanted);
    ASSERT_NE(at, std::string::npos);
    testing::flip_bit(file, static_cast<std::int64_t>(at));
  });
  expect_failure<CheckpointError>(options(checkpoint, "all.h5"), "model/half");
}

TEST_F(CollectiveExportFile, AShardThatIsGoneIsAnErrorOnAll) {
  if (!hdf5::has_mpio()) GTEST_SKIP() << "built without parallel HDF5";
  const fs::path checkpoint = sample(3);
  on_rank0([&] { fs::remove(checkpoint / read_manifest(checkpoint).files[1].name); });
  expect_failure<CheckpointError>(options(checkpoint, "all.h5"), "cannot");
}

// The limit on file sizes stands for a full disk.
TEST_F(CollectiveExportFile, AFullDiskIsAnErrorOnAll) {
  if (!hdf5::has_mpio()) GTEST_SKIP() << "built without parallel HDF5";
  const fs::path checkpoint = sample(2);
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  rlimit low = before;
  low.rlim_cur = 3000;
  if (world_.rank() == 0) ::setrlimit(RLIMIT_FSIZE, &low);
  expect_failure<IoError>(options(checkpoint, "all.h5"), "ulimit -f");
  ::setrlimit(RLIMIT_FSIZE, &before);
}

// From the moment on when the file is laid out and has its room.
class FullOnceLaidOut final : public FileCalls {
 public:
  FullOnceLaidOut() { use_file_calls(this); }
  ~FullOnceLaidOut() override { use_file_calls(nullptr); }
  int fsync(int descriptor) override {
    const int result = FileCalls::fsync(descriptor);
    rlimit low{};
    ::getrlimit(RLIMIT_FSIZE, &low);
    low.rlim_cur = 3000;
    ::setrlimit(RLIMIT_FSIZE, &low);
    return result;
  }
};

// Some of Open MPI's MPI-IO does not tell that a write has failed: then the file does not read back.
TEST_F(CollectiveExportFile, AWriteThatFailsInTheMiddleIsAnErrorOnAll) {
  if (!hdf5::has_mpio()) GTEST_SKIP() << "built without parallel HDF5";
  const fs::path checkpoint = sample(2);
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  std::optional<FullOnceLaidOut> full;
  if (world_.rank() == 0) full.emplace();
  expect_failure<IoError>(options(checkpoint, "all.h5"), "all.h5.part");
  full.reset();
  ::setrlimit(RLIMIT_FSIZE, &before);
}

TEST_F(CollectiveExportFile, AnUnwritableFolderIsAnErrorOnAll) {
  if (!hdf5::has_mpio()) GTEST_SKIP() << "built without parallel HDF5";
  expect_failure<IoError>(options(sample(1), "missing/all.h5"), "missing/all.h5");
}

TEST_F(CollectiveExportFile, WhatAnotherExportIsWritingStays) {
  if (!hdf5::has_mpio()) GTEST_SKIP() << "built without parallel HDF5";
  const ExportOptions wanted = options(sample(2), "all.h5");
  std::optional<OutputLock> other;
  on_rank0([&] {
    other.emplace(wanted.output);
    write_text_file(part_of(wanted), "of the other one");
  });
  EXPECT_THROW(export_collectively(world_, wanted), OptionError);
  on_rank0([&] { EXPECT_EQ(read_text_file(part_of(wanted)), "of the other one"); });
}

TEST_F(CollectiveExportFile, WithoutParallelHdf5TheErrorTellsWhatToInstall) {
  if (hdf5::has_mpio()) GTEST_SKIP() << "built with parallel HDF5";
  expect_failure<OptionError>(options(sample(1), "all.h5"), "SHOAL_PARALLEL_HDF5=ON");
}

}  // namespace
}  // namespace shoal::checkpoint

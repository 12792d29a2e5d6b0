// An export that stops at any call to the disk, by itself or with the machine, goes on, and its result is that of one
// that was never stopped.
#include <gtest/gtest.h>

#include <set>

#include "checkpoint/export.h"
#include "checkpoint/export_parts.h"
#include "checkpoint/numbered_saves.h"
#include "checkpoint/sample_state.h"
#include "core/error.h"
#include "core/file_io.h"
#include "support/faulty_files.h"

namespace shoal::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::Fault;
using testing::FaultyFiles;

constexpr std::int64_t kSomeFinished = 60;  // calls to the disk, after which a part of an export is in its journal

class ExportResume : public ::testing::TestWithParam<ExportFormat> {
 protected:
  static bool is_npz() { return GetParam() == ExportFormat::npz; }  // NumPy has no bfloat16

  ExportOptions options(const std::string& name) const {
    ExportOptions options;
    options.checkpoint = checkpoint_;
    options.output = root_ / name;
    options.format = GetParam();
    if (options.format == ExportFormat::safetensors) options.shard_bytes = 300;
    options.selection.dtype = is_npz() ? DType::float16 : DType::bfloat16;
    options.piece_bytes = 64;
    options.sync_bytes = 256;
    return options;
  }

  // Name → contents, of a file or a folder.
  static std::map<std::string, std::string> contents(const fs::path& output) {
    if (!fs::is_directory(output)) return {{"", read_text_file(output)}};
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::directory_iterator(output))
      files[entry.path().filename().string()] = read_text_file(entry.path());
    return files;
  }

  testing::TemporaryDirectory directory_{testing::memory_folder()};
  fs::path checkpoint_ = testing::write_sample(directory_.path() / "ckpt", 7, 3, 5);
  fs::path root_ = (fs::create_directory(directory_.path() / "out"), fs::canonical(directory_.path() / "out"));
};

TEST_P(ExportResume, StoppedAtAnyCall) {
  const testing::QuietErrors quiet;
  FaultyFiles files(root_, 1);
  export_checkpoint(options("whole"));
  const auto whole = contents(root_ / "whole");
  std::set<std::int64_t> went_on;
  for (std::int64_t stop = 0, struck = true; struck; ++stop) {
    files.plan({.kind = Fault::Kind::stop, .at = stop});
    try {
      export_checkpoint(options("out"));
    } catch (const IoError&) {
      EXPECT_TRUE(files.struck());
    }
    struck = files.struck();
    if (stop % 2)
      files.lose_power();
    else
      files.restart();
    files.plan({});
    // What has its name is whole, the index of several files comes last.
    const bool several = GetParam() == ExportFormat::safetensors;
    const fs::path last = several ? root_ / "out/model.safetensors.index.json" : root_ / "out";
    if (fs::exists(last)) {
      EXPECT_EQ(contents(root_ / "out"), whole) << stop;
    }
    ExportOptions again = options("out");
    again.force = true;
    again.read_back = stop % 3 > 0;  // what was finished is whole without that too
    const ExportReport report = export_checkpoint(again);
    EXPECT_EQ(report.check_seconds > 0, again.read_back);
    went_on.insert(report.bytes_before);
    EXPECT_EQ(contents(root_ / "out"), whole) << stop;
    remove_tree(root_ / "out");
  }
  EXPECT_GE(went_on.size(), 4u);  // from so many different places
}

TEST_P(ExportResume, AnotherExportDoesNotGoOn) {
  const testing::QuietErrors quiet;
  FaultyFiles files(root_, 1);
  files.plan({.kind = Fault::Kind::stop, .at = kSomeFinished});
  EXPECT_THROW(export_checkpoint(options("out")), IoError);
  files.restart();
  files.plan({});
  ExportOptions other = options("out");
  other.selection.dtype = is_npz() ? DType::float32 : DType::float16;
  EXPECT_EQ(export_checkpoint(other).bytes_before, 0);
  other.output = root_ / "other";
  export_checkpoint(other);
  EXPECT_EQ(contents(root_ / "out"), contents(root_ / "other"));
}

// What the journal calls finished is not believed: it is read back.
TEST_P(ExportResume, ABadPartIsFound) {
  const testing::QuietErrors quiet;
  ExportOptions wanted = options("out");
  wanted.shard_bytes = 0;
  {
    FaultyFiles files(root_, 1);
    files.plan({.kind = Fault::Kind::stop, .at = kSomeFinished});
    EXPECT_THROW(export_checkpoint(wanted), IoError);
    files.restart();
  }
  const Export job(wanted);
  const auto finished = ExportJournal(part_path(wanted.output).string() + ".journal", 0).read();
  EXPECT_FALSE(finished);  // of another plan
  testing::flip_bit(part_path(wanted.output), job.source().pieces.front().place.offset);
  EXPECT_THROW(export_checkpoint(wanted), IoError);
  EXPECT_FALSE(fs::exists(wanted.output));
  EXPECT_FALSE(fs::exists(part_path(wanted.output)));
  export_checkpoint(wanted);
}

// A collective export gives its part a name of its own, which only a later export to the same output can take away.
TEST_P(ExportResume, WhatKilledCollectiveExportsHaveLeftIsRemoved) {
  ExportOptions wanted = options("out");
  wanted.shard_bytes = 0;
  const fs::path left = root_ / "out.part.0123456789abcdef";
  const std::vector<fs::path> of_others{root_ / "out.part.0123456789abcdeg", root_ / "out2.part.0123456789abcdef",
                                        root_ / "out.partial"};
  write_text_file(left, "half");
  for (const fs::path& other : of_others) write_text_file(other, "kept");
  export_checkpoint(wanted);
  EXPECT_FALSE(fs::exists(left));
  for (const fs::path& other : of_others) EXPECT_EQ(read_text_file(other), "kept") << other;
}

TEST_P(ExportResume, WorkersMakeNoDifference) {
  export_checkpoint(options("one"));
  ExportOptions four = options("four");
  four.workers = 4;
  export_checkpoint(four);
  EXPECT_EQ(contents(root_ / "one"), contents(root_ / "four"));
}

INSTANTIATE_TEST_SUITE_P(Formats, ExportResume,
                         ::testing::Values(ExportFormat::hdf5, ExportFormat::torch, ExportFormat::safetensors,
                                           ExportFormat::npz));

}  // namespace
}  // namespace shoal::checkpoint

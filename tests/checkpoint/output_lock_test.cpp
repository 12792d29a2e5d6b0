// Two tools that would write one output at the same time.
#include "checkpoint/output_lock.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checkpoint/export.h"
#include "checkpoint/reshard.h"
#include "checkpoint/sample_state.h"
#include "core/error.h"

namespace shoal::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryDirectory;

std::string refusal(const std::function<void()>& body) {
  try {
    body();
  } catch (const OptionError& error) {
    return error.what();
  }
  return "";
}

void expect_named(const std::string& text, const fs::path& output) {
  EXPECT_NE(text.find("process " + std::to_string(::getpid()) + " on "), std::string::npos) << text;
  EXPECT_NE(text.find(output.string() + ".lock"), std::string::npos) << text;
  EXPECT_NE(text.find("--output"), std::string::npos) << text;
}

class Locked : public ::testing::Test {
 protected:
  TemporaryDirectory directory_;
  fs::path checkpoint_ = testing::write_sample(directory_.path() / "ckpt", 7, 3, 5);
  fs::path output_ = directory_.path() / "out";
};

TEST_F(Locked, AnExportIsToldWhoWrites) {
  ExportOptions options;
  options.checkpoint = checkpoint_;
  options.output = output_;
  {
    const OutputLock lock(output_);
    expect_named(refusal([&] { export_checkpoint(options); }), output_);
    EXPECT_FALSE(fs::exists(output_.string() + ".part"));
    options.output = output_.string() + "2";
    EXPECT_EQ(refusal([&] { export_checkpoint(options); }), "");  // another output
  }
  options.output = output_;
  EXPECT_EQ(refusal([&] { export_checkpoint(options); }), "");
  EXPECT_FALSE(fs::exists(lock_path(output_)));
}

TEST_F(Locked, SoIsWhatMakesACheckpoint) {
  const ReshardOptions options{.checkpoint = checkpoint_, .output = output_.string() + "/", .ranks = 2, .workers = 1};
  {
    const OutputLock lock(output_);
    expect_named(refusal([&] { reshard(options); }), output_);
    EXPECT_FALSE(fs::exists(output_));
  }
  EXPECT_EQ(refusal([&] { reshard(options); }), "");
  EXPECT_FALSE(fs::exists(lock_path(output_)));
}

TEST_F(Locked, AKilledProcessHoldsNothing) {
  const pid_t child = ::fork();
  if (child == 0) {
    const OutputLock lock(output_);
    ::_exit(fs::exists(lock_path(output_)) ? 0 : 1);  // no destructor runs
  }
  int status = 1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  EXPECT_TRUE(fs::exists(lock_path(output_)));
  { const OutputLock lock(output_); }
  EXPECT_FALSE(fs::exists(lock_path(output_)));
}

}  // namespace
}  // namespace shoal::checkpoint

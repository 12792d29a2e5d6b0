// With a program named lfs on PATH that says what it was asked.
#include "train/lustre_stripes.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "checkpoint/sample_state.h"
#include "core/file_io.h"

namespace shoal::train {
namespace {

namespace fs = std::filesystem;

// PATH with an lfs of this text in front, while it lives.
class FakeLfs {
 public:
  explicit FakeLfs(const std::string& script) : path_(std::getenv("PATH")) {
    const fs::path program = directory_.path() / "lfs";
    std::ofstream(program) << "#!/bin/sh\necho \"$@\" >> " << log().string() << "\n" << script << "\n";
    fs::permissions(program, fs::perms::owner_all);
    ::setenv("PATH", (directory_.path().string() + ":" + path_).c_str(), 1);
  }
  ~FakeLfs() { ::setenv("PATH", path_.c_str(), 1); }
  std::string asked() const { return read_text_file(log()); }

 private:
  fs::path log() const { return directory_.path() / "log"; }
  testing::TemporaryDirectory directory_;
  std::string path_;
};

TEST(LustreStripes, AreSetAndTold) {
  const FakeLfs lfs("exit 0");
  EXPECT_EQ(set_stripes("/ck", 1e9), "Lustre: files of checkpoints get 1 stripe(s) each (lfs setstripe -c 1 /ck)");
  EXPECT_EQ(set_stripes("/ck", 2e11), "Lustre: files of checkpoints get 4 stripe(s) each (lfs setstripe -c 4 /ck)");
  EXPECT_EQ(lfs.asked(), "getstripe -d /ck\nsetstripe -c 1 /ck\ngetstripe -d /ck\nsetstripe -c 4 /ck\n");
}

TEST(LustreStripes, AnotherFileSystemIsLeftAlone) {
  const FakeLfs lfs("echo 'error: getstripe failed for /ck.' >&2; exit 25");
  EXPECT_EQ(set_stripes("/ck", 1e9), "");
  EXPECT_EQ(lfs.asked(), "getstripe -d /ck\n");
}

TEST(LustreStripes, AFailureIsTold) {
  const FakeLfs lfs("[ $1 = getstripe ] || { echo 'Permission denied' >&2; exit 13; }");
  EXPECT_EQ(
      set_stripes("/ck", 1e9),
      "Lustre: the striping of checkpoints stays as it is: lfs setstripe -c 1 /ck: exit code 13: Permission denied");
}

TEST(LustreStripes, WithoutLfsThereIsNothingToSay) {
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", "/nowhere", 1);
  EXPECT_EQ(set_stripes("/ck", 1e9), "");
  ::setenv("PATH", path.c_str(), 1);
}

}  // namespace
}  // namespace shoal::train

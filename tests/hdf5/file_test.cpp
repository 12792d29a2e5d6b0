#include "hdf5/file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <thread>
#include <vector>

#include "hdf5/attribute.h"
#include "hdf5/dataset.h"
#include "hdf5/datatype.h"
#include "hdf5/temporary_file.h"

namespace shoal::hdf5 {
namespace {

using testing::TemporaryFile;

TEST(Hdf5File, MissingFileIsNamedWithTheSystemsReason) {
  try {
    File::open_for_reading("/nowhere/at/all.h5");
    FAIL();
  } catch (const Hdf5Error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("/nowhere/at/all.h5"), std::string::npos) << text;
    EXPECT_NE(text.find("No such file or directory"), std::string::npos) << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    EXPECT_EQ(error.exit_code(), ExitCode::io);
  }
}

TEST(Hdf5File, NothingIsPrintedByTheLibrary) {
  ::testing::internal::CaptureStderr();
  EXPECT_THROW(File::open_for_reading("/nowhere/at/all.h5"), Hdf5Error);
  EXPECT_THROW(File::create("/nowhere/at/all.h5"), Hdf5Error);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST(Hdf5File, WhatIsNoHdf5FileIsRefused) {
  const TemporaryFile temporary;
  std::ofstream(temporary.path()) << "plain text";
  EXPECT_THROW(File::open_for_reading(temporary.path()), Hdf5Error);
}

TEST(Hdf5File, ExistingFilesAreNotOverwritten) {
  const TemporaryFile temporary;
  File::create(temporary.path()).close();
  EXPECT_THROW(File::create(temporary.path()), Hdf5Error);
}

TEST(Hdf5File, LinksAreFoundAndMade) {
  const TemporaryFile temporary;
  File file = File::create(temporary.path());
  create_contiguous(file, "/model/a.weight", file_type(DType::float32).get(), {3});
  file.add_hard_link("/model/a.weight", "/other/name");
  EXPECT_TRUE(file.contains("/model"));
  EXPECT_TRUE(file.contains("/model/a.weight"));
  EXPECT_FALSE(file.contains("/model/b"));
  EXPECT_FALSE(file.contains("/missing/group/b"));
  EXPECT_EQ(find_dataset(file, "/other/name").file_offset, find_dataset(file, "/model/a.weight").file_offset);
  EXPECT_THROW(file.add_hard_link("/model/none", "/x"), Hdf5Error);
}

TEST(Hdf5File, ThreadsMayUseFilesOfTheirOwn) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([i] {
      const TemporaryFile temporary;
      for (int round = 0; round < 20; ++round) {
        std::filesystem::remove(temporary.path());
        File file = File::create(temporary.path());
        write_attribute(file, "thread", std::int64_t{i});
        create_contiguous(file, "/x", file_type(DType::bfloat16).get(), {round});
        file.close();
        EXPECT_EQ(read_int64_attribute(File::open_for_reading(temporary.path()), "thread"), i);
      }
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace shoal::hdf5

#include "hdf5/file.h"

#include <gtest/gtest.h>

#include <chrono>
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
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST(Hdf5File, WhatIsNoHdf5FileIsRefused) {
  const TemporaryFile temporary;
  std::ofstream(temporary.path()) << "plain text";
  EXPECT_THROW(File::open_for_reading(temporary.path()), Hdf5Error);
}

// The data of a dataset are a hole until somebody writes them.
TEST(Hdf5File, ANewFileIsSmallInMemory) {
  File file = File::create_in_memory("test");
  create_contiguous(file, "/large", file_type(DType::float64).get(), {1'000'000'000'000});
  std::size_t handed_out = 0;
  const std::int64_t size = file.close_into([&](std::int64_t, const void*, std::size_t bytes) { handed_out += bytes; });
  EXPECT_GT(size, 8'000'000'000'000);
  EXPECT_LT(handed_out, 64u << 10);
}

std::string sample_bytes() {
  std::string bytes;
  File file = File::create_in_memory("test");
  create_contiguous(file, "/group/sub/x", file_type(DType::float32).get(), {3});
  write_attribute(file, "text", std::string("t"));
  file.add_hard_link("/group/sub/x", "/other/name");
  file.close_into([&](std::int64_t offset, const void* data, std::size_t count) {
    bytes.resize(static_cast<std::size_t>(offset));
    bytes.append(static_cast<const char*>(data), count);
  });
  return bytes;
}

TEST(Hdf5File, EqualContentsAreEqualBytes) {
  const std::string first = sample_bytes();
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // HDF5 counts time in seconds
  EXPECT_EQ(sample_bytes(), first);
}

TEST(Hdf5File, WhatTheWriterThrowsIsPassedOn) {
  File file = File::create_in_memory("test");
  EXPECT_THROW(file.close_into([](auto&&...) { throw IoError("disk full"); }), IoError);
}

TEST(Hdf5File, ALinkIsASecondName) {
  File file = File::create_in_memory("test");
  create_contiguous(file, "/model/a.weight", file_type(DType::float32).get(), {3});
  file.add_hard_link("/model/a.weight", "/other/name");
  EXPECT_EQ(find_dataset(file, "/other/name").file_offset, find_dataset(file, "/model/a.weight").file_offset);
  EXPECT_THROW(file.add_hard_link("/model/none", "/x"), Hdf5Error);
}

TEST(Hdf5File, ThreadsMayUseFilesOfTheirOwn) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([i] {
      const TemporaryFile temporary;
      for (int round = 0; round < 20; ++round) {
        File file = File::create_in_memory("test");
        write_attribute(file, "thread", std::int64_t{i});
        create_contiguous(file, "/x", file_type(DType::bfloat16).get(), {round});
        temporary.store(file);
        EXPECT_EQ(read_int64_attribute(File::open_for_reading(temporary.path()), "thread"), i);
      }
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace shoal::hdf5

#include "core/direct_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <random>

#include "core/error.h"
#include "core/file_calls.h"

namespace shoal {
namespace {

namespace fs = std::filesystem;

// A file system that does not take O_DIRECT, when a file is opened or when it is written and read.
class Refusing final : public FileCalls {
 public:
  explicit Refusing(bool at_open) : at_open_(at_open) { use_file_calls(this); }
  ~Refusing() override { use_file_calls(nullptr); }
  int open(const char* path, int flags, mode_t mode) override {
    if (at_open_ && (flags & O_DIRECT) != 0) return refused();
    return FileCalls::open(path, flags, mode);
  }
  ssize_t pwrite(int descriptor, const void* data, std::size_t bytes, off_t offset) override {
    return is_direct(descriptor) ? refused() : FileCalls::pwrite(descriptor, data, bytes, offset);
  }
  ssize_t pread(int descriptor, void* data, std::size_t bytes, off_t offset) override {
    return is_direct(descriptor) ? refused() : FileCalls::pread(descriptor, data, bytes, offset);
  }
  int refusals() const { return refusals_; }

 private:
  static bool is_direct(int descriptor) { return (::fcntl(descriptor, F_GETFL) & O_DIRECT) != 0; }
  int refused() {
    ++refusals_;
    errno = EINVAL;
    return -1;
  }
  bool at_open_;
  int refusals_ = 0;
};

class DirectFile : public ::testing::Test {
 protected:
  DirectFile() {
    for (char& byte : expected_) byte = static_cast<char>(random_());
  }
  ~DirectFile() override { fs::remove(path_); }

  // In parts of any size, whose memory is as theirs in the file or is not.
  void write(bool direct) {
    OutputFile file(path_);
    file.resize(static_cast<std::int64_t>(expected_.size()));
    DirectOutput output(std::move(file), path_, direct);
    AlignedBuffer buffer;
    for (std::size_t at = 0; at < expected_.size();) {
      const std::size_t bytes = std::min<std::size_t>(1 + random_() % 50'000, expected_.size() - at);
      const std::size_t shift = random_() % 4 == 0 ? 1 : 0;
      char* const memory =
          reinterpret_cast<char*>(buffer.at_least(bytes + 2 * direct_block())) + (at + shift) % direct_block();
      expected_.copy(memory, bytes, at);
      output.write_at(static_cast<std::int64_t>(at), memory, bytes);
      at += bytes;
    }
    output.sync();
    output.close();
  }

  void expect_read(bool direct) {
    const DirectInput input(path_, direct);
    AlignedBuffer buffer;
    for (int trial = 0; trial < 200; ++trial) {
      const std::size_t at = random_() % expected_.size();
      const std::size_t bytes = 1 + random_() % (expected_.size() - at);
      const std::byte* const got = input.read_at(static_cast<std::int64_t>(at), bytes, buffer);
      EXPECT_EQ(std::string(reinterpret_cast<const char*>(got), bytes), expected_.substr(at, bytes)) << at;
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(got) % direct_block(), at % direct_block());
    }
    EXPECT_THROW(input.read_at(static_cast<std::int64_t>(expected_.size()) - 5, 6, buffer), CheckpointError);
    EXPECT_THROW(input.read_at(static_cast<std::int64_t>(expected_.size()), 1, buffer), CheckpointError);
  }

  std::string on_disk() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::mt19937 random_{3};
  std::string expected_ = std::string(300'001, '\0');
  fs::path path_ = fs::temp_directory_path() / ("shoal_direct_" + std::to_string(std::random_device{}()));
};

TEST_F(DirectFile, EveryByteIsInItsPlace) {
  for (const bool direct : {true, false}) {
    write(direct);
    EXPECT_EQ(on_disk(), expected_);
    for (const bool direct_read : {true, false}) expect_read(direct_read);
  }
}

TEST_F(DirectFile, FileSystemsThatDoNotTakeIt) {
  for (const bool at_open : {true, false}) {
    {
      Refusing calls(at_open);
      write(true);
      EXPECT_GT(calls.refusals(), 0);
      if (!at_open) expect_read(true);
    }
    EXPECT_EQ(on_disk(), expected_);
  }
}

TEST_F(DirectFile, WhatCannotBeOpenedIsNamed) {
  try {
    DirectInput("/nonexistent/file", true);
    FAIL();
  } catch (const IoError& error) {
    EXPECT_NE(std::string(error.what()).find("/nonexistent/file"), std::string::npos);
  }
}

}  // namespace
}  // namespace shoal

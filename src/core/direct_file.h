// Files that are read once or written once and are larger than what the page cache is good for: they go past it
// (O_DIRECT) where the file system takes that, and through it elsewhere. Errors as file_io.h has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>

#include "core/file_io.h"

namespace shoal {

// What goes past the cache begins and ends at multiples of it, in the file and in memory: a page, so that no page is
// written both ways.
std::size_t direct_block() noexcept;

// Memory that begins at a multiple of direct_block().
class AlignedBuffer {
 public:
  std::byte* at_least(std::size_t bytes);  // what was in it is lost where it has to grow

 private:
  struct Free {
    void operator()(std::byte* memory) const noexcept;
  };
  std::unique_ptr<std::byte, Free> memory_;
  std::size_t bytes_ = 0;
};

class DirectInput {
 public:
  // `direct`: false goes through the page cache.
  DirectInput(const std::filesystem::path& path, bool direct);
  // All of `bytes`, somewhere in `buffer`, which takes two blocks more. CheckpointError where the file ends before.
  const std::byte* read_at(std::int64_t offset, std::size_t bytes, AlignedBuffer& buffer) const;

 private:
  std::filesystem::path path_;
  Descriptor descriptor_;
};

// By any number of threads at a time, at different places.
class DirectOutput {
 public:
  // What is opened a second time beside `file`, for what goes past the cache.
  DirectOutput(OutputFile file, const std::filesystem::path& path, bool direct);
  // Whole blocks of what lies in memory as it lies in the file (the remainders of address and offset by direct_block()
  // are equal) go past the cache, the rest through it.
  void write_at(std::int64_t offset, const void* data, std::size_t bytes);
  void resize(std::int64_t bytes) { file_.resize(bytes); }
  void sync() { file_.sync(); }
  void close();

 private:
  std::size_t write_direct(std::int64_t offset, const char* data, std::size_t bytes);

  std::filesystem::path path_;
  OutputFile file_;
  Descriptor direct_;
};

}  // namespace shoal

// The bytes of a foreign file, by whoever can read them: the parsers of this layer open no files themselves.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace shoal::formats {

struct ByteSource {
  std::string path;         // for messages
  std::uint64_t bytes = 0;  // of the whole file
  std::function<void(std::uint64_t offset, void* into, std::size_t bytes)> read_at;

  // `count` bytes from `offset`. CheckpointError that names `what`, path and offset where the file has not that many,
  // or where they are more than `limit`: nothing is allocated on the word of a damaged file.
  std::string read(std::uint64_t offset, std::uint64_t count, std::uint64_t limit, const char* what) const;
};

}  // namespace shoal::formats

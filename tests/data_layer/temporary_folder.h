// A folder that lives as long as the object, and ways to put idx files into it.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <new>
#include <string>
#include <vector>

#include "support/temporary_folder.h"

namespace shoal::data {

class TemporaryFolder : public testing::TemporaryFolder {
 public:
  std::filesystem::path write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path() / name, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return path() / name;
  }
};

// An idx file in memory. The header says `magic` and `shape`, whatever `elements` holds.
inline std::string idx_bytes(std::uint32_t magic, const std::vector<std::uint32_t>& shape,
                             const std::string& elements) {
  std::string bytes;
  const auto put = [&](std::uint32_t word) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(word >> shift));
  };
  put(magic);
  for (const std::uint32_t size : shape) put(size);
  return bytes + elements;
}

inline std::string gzip(const std::string& bytes) {
  std::string out(compressBound(bytes.size()) + 64, '\0');
  z_stream stream{};
  if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) throw std::bad_alloc();
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

}  // namespace shoal::data

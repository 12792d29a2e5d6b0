#include "data/idx_file.h"

#include <array>

#include "core/check.h"
#include "data/gzip_stream.h"

namespace shoal::data {
namespace {

constexpr std::uint8_t kUnsignedByte = 0x08;
constexpr std::int64_t kLargestArray = std::int64_t{1} << 40;  // a header asking for more is damaged, not large

std::uint32_t big_endian(const std::uint8_t* bytes) {
  return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 | std::uint32_t{bytes[2]} << 8 | bytes[3];
}

void read_header_bytes(GzipStream& stream, std::uint8_t* into, std::size_t bytes) {
  SHOAL_CHECK(stream.read(into, bytes) == bytes, DataError, "{}: the file ends within the idx header",
              stream.path().string());
}

void read_magic(GzipStream& stream, int dimensions) {
  std::array<std::uint8_t, 4> magic;
  read_header_bytes(stream, magic.data(), magic.size());
  const std::string path = stream.path().string();
  SHOAL_CHECK(magic[0] == 0 && magic[1] == 0, DataError,
              "{}: not an idx file: it starts with {:#010x}, an idx file with two zero bytes", path,
              big_endian(magic.data()));
  SHOAL_CHECK(magic[2] == kUnsignedByte, DataError, "{}: idx element type {:#04x}, expected {:#04x} (unsigned byte)",
              path, magic[2], kUnsignedByte);
  SHOAL_CHECK(magic[3] == dimensions, DataError, "{}: idx array of {} dimensions, expected {}", path, magic[3],
              dimensions);
}

std::vector<std::int64_t> read_shape(GzipStream& stream, int dimensions) {
  std::vector<std::int64_t> shape;
  std::int64_t elements = 1;
  for (int d = 0; d < dimensions; ++d) {
    std::array<std::uint8_t, 4> bytes;
    read_header_bytes(stream, bytes.data(), bytes.size());
    shape.push_back(big_endian(bytes.data()));
    SHOAL_CHECK(shape[d] == 0 || elements <= kLargestArray / shape[d], DataError,
                "{}: the idx header asks for more than {} bytes; it is damaged", stream.path().string(), kLargestArray);
    elements *= shape[d];
  }
  return shape;
}

// Grows with what is really there, so that a damaged header cannot make us take memory for nothing.
std::vector<std::uint8_t> read_elements(GzipStream& stream, std::int64_t count) {
  constexpr std::int64_t kStep = std::int64_t{64} << 20;
  std::vector<std::uint8_t> bytes;
  while (static_cast<std::int64_t>(bytes.size()) < count) {
    const std::size_t have = bytes.size();
    const auto wanted = static_cast<std::size_t>(std::min(count - static_cast<std::int64_t>(have), kStep));
    bytes.resize(have + wanted);
    const std::size_t got = stream.read(bytes.data() + have, wanted);
    SHOAL_CHECK(got == wanted, DataError, "{}: the file is cut short: its idx header promises {} bytes, {} are there",
                stream.path().string(), count, have + got);
  }
  return bytes;
}

}  // namespace

IdxArray read_idx(const std::filesystem::path& path, int dimensions) {
  GzipStream stream(path);
  read_magic(stream, dimensions);
  IdxArray array;
  array.shape = read_shape(stream, dimensions);
  std::int64_t elements = 1;
  for (const std::int64_t size : array.shape) elements *= size;
  array.bytes = read_elements(stream, elements);
  std::uint8_t excess;
  SHOAL_CHECK(stream.read(&excess, 1) == 0, DataError, "{}: bytes follow the {} that the idx header promises",
              path.string(), elements);
  return array;
}

}  // namespace shoal::data

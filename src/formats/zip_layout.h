// The layout of a ZIP archive of stored (uncompressed) entries whose names and sizes are known before their bytes
// are: every entry has its place at once, so that the data may be written in any order and in any pieces. ZIP64
// records are used where sizes, offsets or counts need them (PKWARE APPNOTE 6.3.10, sections 4.3 to 4.5).
//
// It holds no data and does no I/O: the caller writes data at data_offset(), reports each piece, and at the end
// writes the pieces that records() returns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace shoal::formats {

// CRC-32 as ZIP has it, going on from `previous` (0 at the start).
std::uint32_t zip_crc(const void* data, std::size_t bytes, std::uint32_t previous = 0) noexcept;

class ZipLayout {
 public:
  // Data start on multiples of `alignment` bytes (a power of two), as a reader that maps the file wants it.
  explicit ZipLayout(std::uint64_t alignment = 64) : alignment_(alignment) {}

  std::size_t add(std::string name, std::uint64_t bytes);
  std::uint64_t data_offset(std::size_t entry) const { return entries_[entry].data_offset; }
  std::uint64_t total_bytes() const;  // of the finished archive

  // `bytes` bytes at `data` stand at `offset` of the entry's data: taken into its CRC-32. Pieces come in any order.
  void note_piece(std::size_t entry, std::uint64_t offset, const void* data, std::size_t bytes);
  // The same where the piece's CRC-32 is known.
  void note_checksum(std::size_t entry, std::uint64_t offset, std::uint64_t bytes, std::uint32_t crc);

  // Everything but the data, as (offset in the file, bytes). Throws InternalError where the pieces of an entry do not
  // cover it exactly.
  std::vector<std::pair<std::uint64_t, std::string>> records() const;

 private:
  struct Piece {
    std::uint64_t bytes;
    std::uint32_t crc;
  };
  struct Entry {
    std::string name;
    std::uint64_t bytes, header_offset, data_offset;
    std::map<std::uint64_t, Piece> pieces;  // by offset
  };
  static std::uint32_t crc_of(const Entry& entry);
  static std::string local_header(const Entry& entry, std::uint32_t crc);
  static std::string central_header(const Entry& entry, std::uint32_t crc);
  std::string end_records(std::uint64_t directory_bytes) const;

  std::uint64_t alignment_;
  std::uint64_t end_ = 0;  // of the last entry's data
  std::uint64_t directory_bytes_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace shoal::formats

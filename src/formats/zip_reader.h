// Finds the entries of a ZIP archive (PKWARE APPNOTE 6.3.10, ZIP64 included) and where their stored bytes lie.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "formats/byte_source.h"

namespace shoal::formats {

// Whether a file that begins with `head` (at least four bytes of it) may be an archive.
bool looks_like_zip(std::string_view head);

class ZipReader {
 public:
  // Reads the central directory. CheckpointError for a file that is no archive, or a cut off or damaged one, and for
  // names that stand twice. `file` must live as long as the reader.
  explicit ZipReader(const ByteSource& file);

  struct Place {
    std::uint64_t offset = 0;  // from the start of the file
    std::uint64_t bytes = 0;
  };
  bool contains(const std::string& name) const { return entries_.contains(name); }
  // Where the bytes of `name` lie. CheckpointError where there is no such entry, where it is compressed or encrypted,
  // and where it would lie outside of the file.
  Place place(const std::string& name) const;
  // A whole entry, at most `limit` bytes, checked against its CRC-32 (CheckpointError).
  std::string read(const std::string& name, std::uint64_t limit) const;

  struct Entry {
    std::uint64_t stored_bytes = 0, bytes = 0, header_offset = 0;
    std::uint32_t crc = 0;
    std::uint16_t method = 0, flags = 0;
  };
  const std::map<std::string, Entry>& entries() const { return entries_; }

 private:
  const ByteSource* file_;
  std::map<std::string, Entry> entries_;
};

}  // namespace shoal::formats

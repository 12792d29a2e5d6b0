#include "formats/zip_reader.h"

#include <zlib.h>

#include <algorithm>

#include "core/check.h"
#include "formats/byte_cursor.h"

namespace shoal::formats {
namespace {

constexpr std::uint32_t kLocalSignature = 0x04034B50, kCentralSignature = 0x02014B50, kEnd64Signature = 0x06064B50,
                        kLocatorSignature = 0x07064B50;
constexpr std::string_view kEndSignature("PK\5\6", 4);
constexpr std::uint64_t kMax16 = 0xFFFF, kMax32 = 0xFFFFFFFF;
constexpr std::uint64_t kLocalBytes = 30, kEndBytes = 22, kEnd64Bytes = 56, kLocatorBytes = 20;
constexpr std::uint64_t kMostDirectoryBytes = 64 << 20;
constexpr std::uint16_t kZip64Extra = 0x0001, kEncrypted = 1, kStored = 0;

struct Directory {
  std::uint64_t offset = 0, bytes = 0, entries = 0;
};

// The record that ends a ZIP64 archive, if the locator in front of the plain end record leads to one.
bool read_end64(const ByteSource& file, std::uint64_t end_offset, Directory& directory) {
  if (end_offset < kLocatorBytes) return false;
  const std::string locator = file.read(end_offset - kLocatorBytes, kLocatorBytes, kLocatorBytes, "the ZIP64 locator");
  ByteCursor cursor(locator, file.path + ": the ZIP64 locator");
  if (cursor.u32() != kLocatorSignature) return false;
  cursor.u32();
  const std::string record = file.read(cursor.u64(), kEnd64Bytes, kEnd64Bytes, "the ZIP64 end of the archive");
  ByteCursor end(record, file.path + ": the ZIP64 end of the archive");
  SHOAL_CHECK(end.u32() == kEnd64Signature, CheckpointError, "{}: the ZIP64 end of the archive is damaged", file.path);
  end.text(28);  // size, versions, disks, entries of this disk
  directory.entries = end.u64();
  directory.bytes = end.u64();
  directory.offset = end.u64();
  return true;
}

Directory find_directory(const ByteSource& file) {
  const std::uint64_t tail_bytes = std::min(file.bytes, kEndBytes + kMax16);
  const std::string tail = file.read(file.bytes - tail_bytes, tail_bytes, tail_bytes, "the end of the archive");
  const std::size_t at = tail.rfind(kEndSignature);
  SHOAL_CHECK(at != std::string::npos && at + kEndBytes <= tail.size(), CheckpointError,
              "{} has no ZIP directory at its end: it is truncated or damaged", file.path);
  Directory directory;
  if (read_end64(file, file.bytes - tail_bytes + at, directory)) return directory;
  ByteCursor end(std::string_view(tail).substr(at), file.path + ": the end of the archive");
  end.text(10);  // signature, disks, entries of this disk
  directory.entries = end.u16();
  directory.bytes = end.u32();
  directory.offset = end.u32();
  return directory;
}

// Sizes and offset that do not fit 32 bits stand in an extra field, in this order, those alone.
void read_zip64_extra(std::string_view extra, ZipReader::Entry& entry, const std::string& path) {
  ByteCursor fields(extra, path + ": an extra field of the ZIP directory");
  while (fields.left() >= 4) {
    const std::uint16_t id = fields.u16();
    ByteCursor field(fields.text(fields.u16()), path + ": a ZIP64 field");
    if (id != kZip64Extra) continue;
    for (std::uint64_t* value : {&entry.bytes, &entry.stored_bytes, &entry.header_offset})
      if (*value == kMax32) *value = field.u64();
  }
}

std::pair<std::string, ZipReader::Entry> read_entry(ByteCursor& cursor, const std::string& path) {
  SHOAL_CHECK(cursor.u32() == kCentralSignature, CheckpointError, "{}: the ZIP directory is damaged", path);
  ZipReader::Entry entry;
  cursor.text(4);  // versions
  entry.flags = cursor.u16();
  entry.method = cursor.u16();
  cursor.u32();  // time and date
  entry.crc = cursor.u32();
  entry.stored_bytes = cursor.u32();
  entry.bytes = cursor.u32();
  const std::uint16_t name_bytes = cursor.u16(), extra_bytes = cursor.u16(), comment_bytes = cursor.u16();
  cursor.text(8);  // disk, attributes
  entry.header_offset = cursor.u32();
  std::string name(cursor.text(name_bytes));
  read_zip64_extra(cursor.text(extra_bytes), entry, path);
  cursor.text(comment_bytes);
  return {std::move(name), entry};
}

// Whether extra fields end where they should: no checksum covers their length, by which the data are found.
bool is_list_of_fields(std::string_view extra) {
  while (extra.size() >= 4) {
    const std::size_t bytes = 4u + static_cast<unsigned char>(extra[2]) + 256u * static_cast<unsigned char>(extra[3]);
    if (bytes > extra.size()) return false;
    extra.remove_prefix(bytes);
  }
  return extra.empty();
}

}  // namespace

bool looks_like_zip(std::string_view head) { return head.starts_with("PK\3\4"); }

ZipReader::ZipReader(const ByteSource& file) : file_(&file) {
  const Directory directory = find_directory(file);
  const std::string bytes = file.read(directory.offset, directory.bytes, kMostDirectoryBytes, "the ZIP directory");
  ByteCursor cursor(bytes, file.path + ": the ZIP directory");
  for (std::uint64_t i = 0; i < directory.entries; ++i) {
    auto [name, entry] = read_entry(cursor, file.path);
    SHOAL_CHECK(entries_.emplace(name, entry).second, CheckpointError, "{}: the archive has two entries '{}'",
                file.path, name);
  }
}

ZipReader::Place ZipReader::place(const std::string& name) const {
  const auto found = entries_.find(name);
  SHOAL_CHECK(found != entries_.end(), CheckpointError, "{}: the archive has no entry '{}': it is damaged", file_->path,
              name);
  const Entry& entry = found->second;
  SHOAL_CHECK(entry.method == kStored && (entry.flags & kEncrypted) == 0 && entry.stored_bytes == entry.bytes,
              CheckpointError,
              "{}: entry '{}' is compressed or encrypted, so that no part of it can be read alone; write the file "
              "with torch.save",
              file_->path, name);
  const std::string header = file_->read(entry.header_offset, kLocalBytes, kLocalBytes, "the header of an entry");
  ByteCursor cursor(header, file_->path + ": the header of an entry");
  SHOAL_CHECK(cursor.u32() == kLocalSignature, CheckpointError, "{}: the header of entry '{}' at byte {} is damaged",
              file_->path, name, entry.header_offset);
  cursor.text(22);  // what the directory says too
  const std::uint64_t name_bytes = cursor.u16(), extra_bytes = cursor.u16();
  const std::uint64_t name_at = entry.header_offset + kLocalBytes, offset = name_at + name_bytes + extra_bytes;
  const std::string rest = file_->read(name_at, name_bytes + extra_bytes, 2 * kMax16, "the name of an entry");
  SHOAL_CHECK(rest.substr(0, name_bytes) == name && is_list_of_fields(std::string_view(rest).substr(name_bytes)),
              CheckpointError, "{}: the header of entry '{}' at byte {} is damaged", file_->path, name,
              entry.header_offset);
  SHOAL_CHECK(offset <= file_->bytes && entry.bytes <= file_->bytes - offset, CheckpointError,
              "{}: entry '{}' would be {} bytes from byte {}, but the file has {}: it is truncated or damaged",
              file_->path, name, entry.bytes, offset, file_->bytes);
  return {offset, entry.bytes};
}

std::string ZipReader::read(const std::string& name, std::uint64_t limit) const {
  const Place where = place(name);
  std::string bytes = file_->read(where.offset, where.bytes, limit, name.c_str());
  const auto crc = static_cast<std::uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
  SHOAL_CHECK(crc == entries_.at(name).crc, CheckpointError,
              "{}: entry '{}' does not match its checksum (CRC-32 {:08x}, {:08x} was written): it is damaged",
              file_->path, name, crc, entries_.at(name).crc);
  return bytes;
}

}  // namespace shoal::formats

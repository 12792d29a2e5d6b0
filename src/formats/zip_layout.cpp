#include "formats/zip_layout.h"

#include <isa-l/crc.h>
#include <zlib.h>

#include <algorithm>

#include "core/check.h"

namespace shoal::formats {
namespace {

constexpr std::uint32_t kLocalSignature = 0x04034B50, kCentralSignature = 0x02014B50, kEndSignature = 0x06054B50,
                        kEnd64Signature = 0x06064B50, kLocatorSignature = 0x07064B50;
constexpr std::uint64_t kMax32 = 0xFFFFFFFF, kMax16 = 0xFFFF;
constexpr std::uint16_t kVersion = 20, kVersion64 = 45;  // needed to extract
constexpr std::uint16_t kUtf8Names = 1 << 11;
constexpr std::uint16_t kDosDate = (1 << 5) | 1;  // 1980-01-01: archives of equal contents are equal
constexpr std::uint16_t kZip64Extra = 0x0001, kPaddingExtra = 0x4246;  // "FB", which PyTorch pads with
constexpr std::uint64_t kLocalFixedBytes = 30, kCentralFixedBytes = 46, kExtraHeaderBytes = 4;
constexpr std::uint64_t kEnd64Bytes = 56;

class Bytes {
 public:
  Bytes& u16(std::uint64_t value) { return put(value, 2); }
  Bytes& u32(std::uint64_t value) { return put(value, 4); }
  Bytes& u64(std::uint64_t value) { return put(value, 8); }
  Bytes& text(const std::string& value) {
    bytes_ += value;
    return *this;
  }
  Bytes& zeros(std::size_t count) {
    bytes_.append(count, '\0');
    return *this;
  }
  std::string take() { return std::move(bytes_); }

 private:
  Bytes& put(std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) bytes_ += static_cast<char>(value >> (8 * i));
    return *this;
  }
  std::string bytes_;
};

std::uint64_t capped32(std::uint64_t value) { return std::min(value, kMax32); }
bool is_big(std::uint64_t value) { return value >= kMax32; }

std::uint64_t local_zip64_bytes(std::uint64_t bytes) { return is_big(bytes) ? kExtraHeaderBytes + 16 : 0; }

std::uint64_t central_zip64_bytes(std::uint64_t bytes, std::uint64_t header_offset) {
  const std::uint64_t payload = (is_big(bytes) ? 16 : 0) + (is_big(header_offset) ? 8 : 0);
  return payload == 0 ? 0 : kExtraHeaderBytes + payload;
}

}  // namespace

// ISA-L's is several times as fast as zlib's.
std::uint32_t zip_crc(const void* data, std::size_t bytes, std::uint32_t previous) noexcept {
  return crc32_gzip_refl(previous, static_cast<const unsigned char*>(data), bytes);
}

std::size_t ZipLayout::add(std::string name, std::uint64_t bytes) {
  SHOAL_CHECK(name.size() <= kMax16, InternalError, "'{}…' is too long a name for a ZIP entry", name.substr(0, 80));
  const std::uint64_t header = end_;
  const std::uint64_t least = header + kLocalFixedBytes + name.size() + local_zip64_bytes(bytes) + kExtraHeaderBytes;
  const std::uint64_t data = (least + alignment_ - 1) & ~(alignment_ - 1);
  directory_bytes_ += kCentralFixedBytes + name.size() + central_zip64_bytes(bytes, header);
  end_ = data + bytes;
  entries_.push_back({std::move(name), bytes, header, data, {}});
  return entries_.size() - 1;
}

void ZipLayout::note_piece(std::size_t entry, std::uint64_t offset, const void* data, std::size_t bytes) {
  note_checksum(entry, offset, bytes, zip_crc(data, bytes));
}

void ZipLayout::note_checksum(std::size_t entry, std::uint64_t offset, std::uint64_t bytes, std::uint32_t crc) {
  if (bytes == 0) return;
  const bool fresh = entries_.at(entry).pieces.emplace(offset, Piece{bytes, crc}).second;
  SHOAL_CHECK(fresh, InternalError, "two pieces of '{}' at byte {}", entries_[entry].name, offset);
}

std::uint32_t ZipLayout::crc_of(const Entry& entry) {
  uLong crc = 0;
  std::uint64_t end = 0;
  for (const auto& [offset, piece] : entry.pieces) {
    SHOAL_CHECK(offset == end, InternalError, "the pieces of '{}' do not meet at byte {}", entry.name, offset);
    crc = crc32_combine(crc, piece.crc, static_cast<z_off_t>(piece.bytes));
    end += piece.bytes;
  }
  SHOAL_CHECK(end == entry.bytes, InternalError, "{} of {} bytes of '{}' were written", end, entry.bytes, entry.name);
  return static_cast<std::uint32_t>(crc);
}

std::string ZipLayout::local_header(const Entry& entry, std::uint32_t crc) {
  const std::uint64_t zip64 = local_zip64_bytes(entry.bytes);
  const std::uint64_t extra = entry.data_offset - entry.header_offset - kLocalFixedBytes - entry.name.size();
  Bytes header;
  header.u32(kLocalSignature).u16(zip64 ? kVersion64 : kVersion).u16(kUtf8Names).u16(0).u16(0).u16(kDosDate).u32(crc);
  header.u32(capped32(entry.bytes)).u32(capped32(entry.bytes)).u16(entry.name.size()).u16(extra).text(entry.name);
  if (zip64) header.u16(kZip64Extra).u16(16).u64(entry.bytes).u64(entry.bytes);
  const std::uint64_t padding = extra - zip64 - kExtraHeaderBytes;
  return header.u16(kPaddingExtra).u16(padding).zeros(padding).take();
}

std::string ZipLayout::central_header(const Entry& entry, std::uint32_t crc) {
  const std::uint64_t zip64 = central_zip64_bytes(entry.bytes, entry.header_offset);
  const std::uint16_t version = zip64 ? kVersion64 : kVersion;
  Bytes header;
  header.u32(kCentralSignature).u16(version).u16(version).u16(kUtf8Names).u16(0).u16(0).u16(kDosDate).u32(crc);
  header.u32(capped32(entry.bytes)).u32(capped32(entry.bytes)).u16(entry.name.size()).u16(zip64);
  header.u16(0).u16(0).u16(0).u32(0).u32(capped32(entry.header_offset)).text(entry.name);
  if (zip64 == 0) return header.take();
  header.u16(kZip64Extra).u16(zip64 - kExtraHeaderBytes);
  if (is_big(entry.bytes)) header.u64(entry.bytes).u64(entry.bytes);
  if (is_big(entry.header_offset)) header.u64(entry.header_offset);
  return header.take();
}

std::string ZipLayout::end_records(std::uint64_t directory_bytes) const {
  const std::uint64_t count = entries_.size();
  Bytes end;
  if (is_big(end_) || is_big(directory_bytes) || count >= kMax16) {
    end.u32(kEnd64Signature).u64(kEnd64Bytes - 12).u16(kVersion64).u16(kVersion64).u32(0).u32(0);
    end.u64(count).u64(count).u64(directory_bytes).u64(end_);
    end.u32(kLocatorSignature).u32(0).u64(end_ + directory_bytes).u32(1);
  }
  end.u32(kEndSignature).u16(0).u16(0).u16(std::min(count, kMax16)).u16(std::min(count, kMax16));
  return end.u32(capped32(directory_bytes)).u32(capped32(end_)).u16(0).take();
}

std::uint64_t ZipLayout::total_bytes() const { return end_ + directory_bytes_ + end_records(directory_bytes_).size(); }

std::vector<std::pair<std::uint64_t, std::string>> ZipLayout::records() const {
  std::vector<std::pair<std::uint64_t, std::string>> records;
  std::string directory;
  for (const Entry& entry : entries_) {
    const std::uint32_t crc = crc_of(entry);
    records.emplace_back(entry.header_offset, local_header(entry, crc));
    directory += central_header(entry, crc);
  }
  SHOAL_ASSERT(directory.size() == directory_bytes_);
  records.emplace_back(end_, directory + end_records(directory.size()));
  return records;
}

}  // namespace shoal::formats

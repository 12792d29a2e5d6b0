#include "formats/tensorboard.h"

#include <fmt/core.h>

#include <bit>
#include <cmath>
#include <type_traits>

#include "core/crc32c.h"

namespace shoal::formats {
namespace {

// Of tensorflow/core/util/event.proto and framework/summary.proto, with protobuf's kinds of fields.
enum Wire : std::uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
constexpr std::uint32_t kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5;  // of Event
constexpr std::uint32_t kValue = 1;                                                // of Summary
constexpr std::uint32_t kTag = 1, kSimpleValue = 2;                                // of Summary.Value

template <typename T>
void put_little_endian(std::string& out, T value) {
  static_assert(std::is_unsigned_v<T>);
  for (std::size_t i = 0; i < sizeof value; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7f) | 0x80);
  out += static_cast<char>(value);
}

void put_key(std::string& out, std::uint32_t field, Wire wire) { put_varint(out, field << 3 | wire); }

void put_bytes(std::string& out, std::uint32_t field, const std::string& bytes) {
  put_key(out, field, kBytes);
  put_varint(out, bytes.size());
  out += bytes;
}

std::string event_at(double time) {
  std::string event;
  put_key(event, kWallTime, kFixed64);
  put_little_endian(event, std::bit_cast<std::uint64_t>(time));
  return event;
}

std::string value_message(const std::string& tag, double value) {
  std::string message;
  put_bytes(message, kTag, tag);
  put_key(message, kSimpleValue, kFixed32);
  put_little_endian(message, std::bit_cast<std::uint32_t>(static_cast<float>(value)));
  return message;
}

// TFRecord's own: a checksum of bytes that hold checksums should not be that of their parts.
std::uint32_t masked_crc(const std::string& bytes) {
  const std::uint32_t crc = crc32c(bytes.data(), bytes.size());
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

std::filesystem::path made(const std::filesystem::path& folder) {
  make_directories(folder);
  return folder;
}

}  // namespace

std::string tf_record(const std::string& data) {
  std::string record;
  put_little_endian(record, std::uint64_t{data.size()});
  put_little_endian(record, masked_crc(record));
  record += data;
  put_little_endian(record, masked_crc(data));
  return record;
}

TensorBoardFile::TensorBoardFile(const std::filesystem::path& folder, const std::string& name, double time)
    : file_(made(folder) / fmt::format("events.out.tfevents.{:.0f}.{}", time, name)) {
  std::string event = event_at(time);
  put_bytes(event, kFileVersion, "brain.Event:2");
  append(event);
}

void TensorBoardFile::add(double time, std::int64_t step, const std::vector<std::pair<std::string, double>>& scalars) {
  std::string summary;
  for (const auto& [tag, value] : scalars) put_bytes(summary, kValue, value_message(tag, value));
  std::string event = event_at(time);
  put_key(event, kStep, kVarint);
  put_varint(event, static_cast<std::uint64_t>(step));
  put_bytes(event, kSummary, summary);
  append(event);
}

void TensorBoardFile::append(const std::string& event) {
  const std::string record = tf_record(event);
  file_.write_at(bytes_, record.data(), record.size());
  bytes_ += static_cast<std::int64_t>(record.size());
}

}  // namespace shoal::formats

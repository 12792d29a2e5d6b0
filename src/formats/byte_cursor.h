// Takes little-endian numbers and pieces of text from the front of bytes that may be damaged.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "core/check.h"

namespace shoal::formats {

class ByteCursor {
 public:
  // `bytes` must outlive the cursor; `what` is for messages: "WHAT ends in the middle".
  ByteCursor(std::string_view bytes, std::string what) : bytes_(bytes), what_(std::move(what)) {}

  std::uint64_t number(std::size_t count) {
    const std::string_view taken = text(count);
    std::uint64_t value = 0;
    for (std::size_t i = count; i-- > 0;) value = value << 8 | static_cast<unsigned char>(taken[i]);
    return value;
  }
  std::uint8_t u8() { return static_cast<std::uint8_t>(number(1)); }
  std::uint16_t u16() { return static_cast<std::uint16_t>(number(2)); }
  std::uint32_t u32() { return static_cast<std::uint32_t>(number(4)); }
  std::uint64_t u64() { return number(8); }
  std::string_view text(std::uint64_t count) {
    SHOAL_CHECK(count <= left(), CheckpointError, "{} ends in the middle, at its byte {}: it is truncated or damaged",
                what_, position_);
    const std::string_view taken = bytes_.substr(position_, count);
    position_ += count;
    return taken;
  }
  // Up to the next `end`, which is taken too but not returned.
  std::string_view text_until(char end) {
    const std::size_t at = bytes_.find(end, position_);
    const std::string_view taken = text(at == std::string_view::npos ? left() + 1 : at - position_);
    ++position_;
    return taken;
  }
  std::size_t left() const { return bytes_.size() - position_; }
  std::size_t position() const { return position_; }

 private:
  std::string_view bytes_;
  std::string what_;
  std::size_t position_ = 0;
};

}  // namespace shoal::formats

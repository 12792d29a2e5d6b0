// Text that a handler of signals may make: in a buffer of fixed size, without allocation, locale or lock. What does not
// fit is cut off.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace shoal::launch {

template <std::size_t kCapacity>
class SignalSafeText {
 public:
  SignalSafeText& operator<<(std::string_view text) noexcept {
    for (const char c : text)
      if (size_ < kCapacity) text_[size_++] = c;
    return *this;
  }
  SignalSafeText& operator<<(std::int64_t number) noexcept {
    std::array<char, 24> digits{};
    std::size_t at = digits.size();
    std::uint64_t rest = number < 0 ? 0 - static_cast<std::uint64_t>(number) : static_cast<std::uint64_t>(number);
    do digits[--at] = static_cast<char>('0' + rest % 10);
    while ((rest /= 10) > 0);
    if (number < 0) digits[--at] = '-';
    return *this << std::string_view(digits.data() + at, digits.size() - at);
  }
  // As a string of JSON. Characters that need more than a backslash become blanks, and so does what is not ASCII.
  SignalSafeText& quoted(std::string_view text) noexcept {
    *this << "\"";
    for (const char& c : text) {
      if (c == '"' || c == '\\') *this << "\\";
      *this << (c >= ' ' && c < '\x7f' ? std::string_view(&c, 1) : std::string_view(" "));
    }
    return *this << "\"";
  }
  std::string_view view() const noexcept { return {text_.data(), size_}; }

 private:
  std::array<char, kCapacity> text_{};
  std::size_t size_ = 0;
};

}  // namespace shoal::launch

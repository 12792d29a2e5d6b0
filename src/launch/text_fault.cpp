#include "launch/text_fault.h"

#include <algorithm>

#include "core/error.h"

namespace shoal::launch {
namespace {

constexpr std::size_t kShown = 72;

bool is_printable(char c) { return c >= ' ' && c <= '~'; }

}  // namespace

std::string quoted(std::string_view text, std::size_t at) {
  const std::size_t start = text.size() <= kShown ? 0 : std::min(at - std::min(at, kShown / 2), text.size() - kShown);
  std::string shown(text.substr(start, kShown));
  std::ranges::replace_if(
      shown, [](char c) { return !is_printable(c); }, '?');
  return fmt::format("'{}{}{}'", start > 0 ? "..." : "", shown, start + kShown < text.size() ? "..." : "");
}

void throw_fault(std::string_view text, std::size_t at, const std::string& reason) {
  throw OptionError("character {} of {}: {}", at + 1, quoted(text, at), reason);
}

}  // namespace shoal::launch

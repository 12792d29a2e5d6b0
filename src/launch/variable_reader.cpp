#include "launch/variable_reader.h"

#include <charconv>

#include "launch/text_fault.h"

namespace shoal::launch {

std::int64_t parse_number(std::string_view text, std::int64_t least, std::int64_t most) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc::result_out_of_range) throw_fault(text, 0, "the number is too large");
  if (error != std::errc() || end != text.data() + text.size())
    throw_fault(text, static_cast<std::size_t>(end - text.data()), "a number is expected here");
  if (number < least) throw_fault(text, 0, fmt::format("the number is less than {}", least));
  if (number > most) throw_fault(text, 0, fmt::format("the number is more than {}", most));
  return number;
}

}  // namespace shoal::launch

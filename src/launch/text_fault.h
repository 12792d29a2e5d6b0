// How a fault in a text of the environment is told.
#pragma once

#include <string>
#include <string_view>

namespace shoal::launch {

// Always throws OptionError: "character 3 of 'n[3-1]': REASON". `at` counts from 0, the message from 1. Of a long text
// the part around the place is shown; what cannot be printed is shown as '?'.
[[noreturn]] void throw_fault(std::string_view text, std::size_t at, const std::string& reason);

// The text as it is shown there, with its quotes.
std::string quoted(std::string_view text, std::size_t at = 0);

}  // namespace shoal::launch

#include "train/cadence.h"

#include <charconv>

#include "core/check.h"

namespace shoal::train {

Cadence Cadence::parse(const std::string& text) {
  std::int64_t number = -1;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number);
  const bool by_epochs = end + 1 == last && *end == 'e';
  SHOAL_CHECK(error == std::errc() && number >= 0 && (end == last || by_epochs), OptionError,
              "--checkpoint-every takes N (steps) or Ne (epochs), N >= 0, not '{}'", text);
  return by_epochs ? Cadence{.steps = 0, .epochs = number} : Cadence{.steps = number, .epochs = 0};
}

}  // namespace shoal::train

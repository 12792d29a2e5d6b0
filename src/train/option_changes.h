// What a run that goes on from a checkpoint may change of the options with which that was written. docs/training.md has
// the table.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shoal::train {

enum class ChangeRule {
  refused,  // the state would mean something else
  warned,   // the curve bends there
  free,     // no say in what is computed; or it is compared by what is there: data, ranks
};
ChangeRule change_rule(std::string_view option);

using NamedValues = std::vector<std::pair<std::string, std::string>>;  // as resolved() gives them

// Of all options but free ones: 16 hexadecimal digits.
std::string options_hash(const NamedValues& options);

struct OptionChange {
  std::string name, before, now;
  ChangeRule rule = ChangeRule::free;
};
// An option that one side does not have has not changed. In the order of `now`.
std::vector<OptionChange> changes_between(const NamedValues& before, const NamedValues& now);

}  // namespace shoal::train

// Reads values out of variables, each in a fixed order of names, and keeps where each came from and what was wrong.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "launch/variables.h"

namespace shoal::launch {

template <typename T>
struct Found {
  T value{};
  std::string variable;  // the name of the one that it was read from
};
template <typename T>
using Maybe = std::optional<Found<T>>;

// One quantity as people see it: shoal env prints these.
struct EnvironmentRow {
  std::string name, value;             // value: as it stands in the variable; empty: not there
  std::string variable;                // where from; empty: none of them is set
  std::vector<std::string> looked_at;  // in this order, the first that is set wins
};

// A whole number in decimal. OptionError, with the place, for anything else and for one outside the limits.
std::int64_t parse_number(std::string_view text, std::int64_t least = 0, std::int64_t most = INT64_MAX);

class VariableReader {
 public:
  explicit VariableReader(const Variables& variables) : variables_(variables) {}

  bool is_set(const std::string& variable) const { return variables_.contains(variable); }
  bool is(const std::string& variable, const std::string& value) const {
    const auto at = variables_.find(variable);
    return at != variables_.end() && at->second == value;
  }

  // The value by `parse` of the first variable that is set. One that `parse` refuses (OptionError) is a fault and
  // gives no value: the next variable is no substitute for it. All that are set are parsed, so that no fault hides
  // behind another variable.
  template <typename Parse>
  auto find(const std::string& name, const std::vector<std::string>& looked_at, const Parse& parse)
      -> Maybe<decltype(parse(std::string_view()))> {
    Maybe<decltype(parse(std::string_view()))> found;
    EnvironmentRow row{.name = name, .value = {}, .variable = {}, .looked_at = looked_at};
    for (const std::string& variable : looked_at) {
      const auto at = variables_.find(variable);
      if (at == variables_.end()) continue;
      const bool is_first = row.variable.empty();
      if (is_first) row.variable = variable, row.value = at->second;
      try {
        auto value = parse(std::string_view(at->second));
        if (is_first) found = {std::move(value), variable};
      } catch (const OptionError& error) {
        faults_.push_back(variable + ": " + error.what());
      }
    }
    rows_.push_back(std::move(row));
    return found;
  }

  std::vector<EnvironmentRow> take_rows() { return std::move(rows_); }
  std::vector<std::string> take_faults() { return std::move(faults_); }

 private:
  const Variables& variables_;
  std::vector<EnvironmentRow> rows_;
  std::vector<std::string> faults_;
};

}  // namespace shoal::launch

#include "optim/parameter_groups.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/check.h"
#include "core/glob.h"

namespace shoal::optim {
namespace {

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  for (std::size_t comma; (comma = text.find(',')) != text.npos; text.remove_prefix(comma + 1))
    parts.push_back(text.substr(0, comma));
  parts.push_back(text);
  return parts;
}

// A number >= 0.
std::optional<double> parse_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && std::isfinite(value) && value >= 0 ? std::optional(value) : std::nullopt;
}

void check_one_matches(const std::string& option, const std::string& glob, std::span<const std::string> fqns) {
  const bool used = std::any_of(fqns.begin(), fqns.end(), [&](const auto& fqn) { return glob_matches(glob, fqn); });
  SHOAL_CHECK(used, OptionError,
              "{}: no parameter of the model has such a name; they look like '{}', '*' does not cross dots, '**' does",
              option, fqns.empty() ? "" : fqns.front());
}

}  // namespace

ParameterGroups ParameterGroups::parse(const std::string& no_decay, const std::vector<std::string>& groups) {
  ParameterGroups parsed;
  parsed.by_dims_ = no_decay == "auto";
  if (no_decay != "auto" && no_decay != "none") {
    for (const std::string_view glob : split(no_decay)) {
      SHOAL_CHECK(!glob.empty(), OptionError, "--no-decay takes auto, none or GLOB,..., not '{}'", no_decay);
      parsed.no_decay_.emplace_back(glob);
    }
  }
  for (const std::string& text : groups) parsed.groups_.push_back(parse_group(text));
  return parsed;
}

ParameterGroups::Group ParameterGroups::parse_group(const std::string& text) {
  const std::size_t colon = text.find(':');
  SHOAL_CHECK(colon != 0 && colon != std::string::npos, OptionError,
              "--param-group takes GLOB:lr-scale=X,weight-decay=X (one of them or both), not '{}'", text);
  Group group{text, text.substr(0, colon), {}};
  std::vector<std::string_view> seen;
  for (const std::string_view setting : split(std::string_view(text).substr(colon + 1))) {
    const std::size_t equals = std::min(setting.find('='), setting.size());
    const std::string_view key = setting.substr(0, equals);
    SHOAL_CHECK(key == "lr-scale" || key == "weight-decay", OptionError,
                "--param-group {}: the keys are lr-scale and weight-decay, not '{}'", text, key);
    SHOAL_CHECK(std::find(seen.begin(), seen.end(), key) == seen.end(), OptionError,
                "--param-group {}: {} is given twice", text, key);
    seen.push_back(key);
    const auto value = parse_number(setting.substr(std::min(equals + 1, setting.size())));
    SHOAL_CHECK(value, OptionError, "--param-group {}: {} must be a number >= 0", text, key);
    if (key == "lr-scale")
      group.rule.lr_scale = *value;
    else
      group.rule.weight_decay = *value;
  }
  return group;
}

bool ParameterGroups::decays(std::string_view fqn, std::int64_t dims) const {
  if (by_dims_) return dims >= 2;
  return std::none_of(no_decay_.begin(), no_decay_.end(), [&](const auto& glob) { return glob_matches(glob, fqn); });
}

GroupRule ParameterGroups::match(std::string_view fqn, std::int64_t dims) const {
  GroupRule rule;
  const auto last =
      std::find_if(groups_.rbegin(), groups_.rend(), [&](const Group& g) { return glob_matches(g.glob, fqn); });
  if (last != groups_.rend()) rule = last->rule;
  if (!rule.weight_decay && !decays(fqn, dims)) rule.weight_decay = 0;
  return rule;
}

void ParameterGroups::check_used(std::span<const std::string> fqns) const {
  for (const std::string& glob : no_decay_) check_one_matches("--no-decay " + glob, glob, fqns);
  for (const Group& group : groups_) check_one_matches("--param-group " + group.text, group.glob, fqns);
}

}  // namespace shoal::optim

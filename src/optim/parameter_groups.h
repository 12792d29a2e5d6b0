// Parameter groups by name: which parameters decay, and which learn slower or faster than the others.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shoal::optim {

// How the parameters of a group are trained.
struct GroupRule {
  std::optional<double> weight_decay;  // unset: the optimizer's
  double lr_scale = 1;                 // times the learning rate of the step
  bool operator==(const GroupRule&) const = default;
};

class ParameterGroups {
 public:
  // One group: all parameters alike.
  ParameterGroups() = default;

  // `no_decay`: "auto" (parameters of fewer than two dimensions, that is norms and biases, have no weight decay),
  // "none" (all decay), or "GLOB,…" (those of these names have none). `groups`, each "GLOB:KEY=VALUE,…" with the keys
  // lr-scale and weight-decay, come before that: the last one whose GLOB matches sets what it names. Globs as
  // glob_matches() takes them. Throws OptionError that names --no-decay or --param-group.
  static ParameterGroups parse(const std::string& no_decay, const std::vector<std::string>& groups);

  GroupRule match(std::string_view fqn, std::int64_t dims) const;

  // Throws OptionError where a glob takes none of the model's parameters.
  void check_used(std::span<const std::string> fqns) const;

 private:
  struct Group {
    std::string text, glob;
    GroupRule rule;
  };
  static Group parse_group(const std::string& text);

  bool decays(std::string_view fqn, std::int64_t dims) const;

  bool by_dims_ = false;
  std::vector<std::string> no_decay_;
  std::vector<Group> groups_;
};

}  // namespace shoal::optim

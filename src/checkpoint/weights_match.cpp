#include "checkpoint/weights_match.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>

#include "checkpoint/convert_elements.h"
#include "checkpoint/file_names.h"
#include "checkpoint/weights_names.h"
#include "core/check.h"

namespace shoal::checkpoint {
namespace {

std::string describe(const TensorSpec& spec) {
  return fmt::format("{} [{}]", name_of(spec.dtype), fmt::join(spec.shape, ", "));
}

struct Problems {
  std::vector<std::string> missing, superfluous, different;
  std::size_t count() const { return missing.size() + superfluous.size() + different.size(); }
  std::string text() const {
    std::vector<std::string> parts;
    if (!missing.empty()) parts.push_back(listed(missing, "missing in the file"));
    if (!superfluous.empty()) parts.push_back(listed(superfluous, "in the file but not in the model"));
    if (!different.empty()) parts.push_back(listed(different, "of another shape or type"));
    return fmt::format("{}", fmt::join(parts, "; "));
  }
};

// One attempt at a match, under one change of prefixes.
class Attempt {
 public:
  Attempt(const std::vector<TensorSpec>& file, const std::vector<formats::OtherEntry>& others, const StateDict& state,
          const ModelNames& names, const Renaming& renaming, const MatchRules& rules)
      : file_(file), state_(state), names_(names), renaming_(renaming), rules_(rules) {
    match.source.assign(state.tensors.size(), kNoSource);
    taken_.assign(state.tensors.size() + state.aliases.size(), kNoSource);
    if (!renaming.prefix.empty()) match.notes.push_back(describe(renaming));
    assign_names();
    join_aliases();
    place_superfluous();
    for (const formats::OtherEntry& other : others) place_other(other);
    fill_missing();
    compare_specs();
  }

  WeightsMatch match;
  Problems problems;

 private:
  // As they stand first: a renamed one never takes the place of one that has the very name.
  void assign_names() {
    std::vector<std::size_t> rest;
    for (std::size_t i = 0; i < file_.size(); ++i)
      if (!take(names_.find(file_[i].name), i)) rest.push_back(i);
    bool legacy = false;
    for (const std::size_t i : rest) {
      const bool taken = take(names_.find_renamed(file_[i].name, renaming_), i);
      if (!taken) superfluous_.push_back(i);
      legacy = legacy || (taken && is_legacy_name(file_[i].name));
    }
    if (legacy) match.notes.emplace_back("'gamma' and 'beta' are taken for 'weight' and 'bias'");
  }

  bool take(std::optional<std::size_t> name, std::size_t tensor) {
    if (!name || taken_[*name] != kNoSource) return false;
    taken_[*name] = tensor;
    return true;
  }

  void join_aliases() {
    const std::size_t tensors = state_.tensors.size();
    std::copy_n(taken_.begin(), tensors, match.source.begin());
    for (std::size_t i = 0; i < state_.aliases.size(); ++i) {
      const std::size_t twin = taken_[tensors + i];
      const std::size_t tensor = names_.target_of_alias(i);
      if (twin == kNoSource) continue;
      if (match.source[tensor] == kNoSource)
        match.source[tensor] = twin;
      else
        add_twin(tensor, twin);
    }
  }

  void add_twin(std::size_t tensor, std::size_t twin) {
    const TensorSpec &one = file_[match.source[tensor]], &other = file_[twin];
    if (one.shape == other.shape && one.dtype == other.dtype)
      match.twins.emplace_back(tensor, twin);
    else
      problems.different.push_back(fmt::format("'{}' is {} and '{}' is {}, which the model has as one tensor", one.name,
                                               describe(one), other.name, describe(other)));
  }

  void place_superfluous() {
    std::vector<std::string> skipped, extra;
    for (const std::size_t i : superfluous_) {
      const std::optional<std::size_t> partner = partner_of(file_[i]);
      if (is_known_buffer(file_[i])) {
        skipped.push_back(fmt::format("'{}'", file_[i].name));
      } else if (partner && match.source[*partner] != kNoSource) {
        match.notes.push_back(fmt::format("'{}' is tied to '{}'", file_[i].name, names_.of(*partner)));
        add_twin(*partner, i);
      } else {
        (rules_.may_be_extra(file_[i].name) ? extra : problems.superfluous)
            .push_back(fmt::format("'{}'", file_[i].name));
      }
    }
    if (!extra.empty()) match.notes.push_back(listed(extra, "of the file left out"));
    if (!skipped.empty()) match.notes.push_back(listed(skipped, "buffers left out, which are no state"));
  }

  // The one tensor of the model that a head of this name and shape is tied to in a tied model.
  std::optional<std::size_t> partner_of(const TensorSpec& head) const {
    std::optional<std::size_t> partner;
    for (std::size_t i = 0; i < state_.tensors.size(); ++i) {
      if (!is_tied_head(head.name, names_.of(i)) || state_.tensors[i].spec.shape != head.shape) continue;
      if (partner) return std::nullopt;
      partner = i;
    }
    return partner;
  }

  void place_other(const formats::OtherEntry& other) {
    std::optional<std::size_t> name = names_.find(other.name);
    if (!name) name = names_.find_renamed(other.name, renaming_);
    if (name && *name < match.source.size() && match.source[*name] == kNoSource)
      reasons_[*name] = other.reason;
    else
      problems.superfluous.push_back(fmt::format("'{}' ({})", other.name, other.reason));
  }

  void fill_missing() {
    std::vector<std::string> missing;
    for (std::size_t i = 0; i < match.source.size(); ++i) {
      if (match.source[i] != kNoSource) continue;
      TensorSpec head = state_.tensors[i].spec;
      head.name = names_.of(i);
      const std::optional<std::size_t> partner = partner_of(head);
      const auto reason = reasons_.find(i);
      if (reason != reasons_.end()) {
        problems.missing.push_back(fmt::format("'{}' (it {})", head.name, reason->second));
      } else if (partner && match.source[*partner] != kNoSource) {
        match.source[i] = match.source[*partner];
        match.notes.push_back(fmt::format("'{}' takes the values of '{}'", head.name, names_.of(*partner)));
      } else {
        (rules_.may_be_missing(head.name) ? missing : problems.missing).push_back(fmt::format("'{}'", head.name));
      }
    }
    if (!missing.empty()) match.notes.push_back(listed(missing, "not in the file, which keep their initial values"));
  }

  void compare_specs() {
    for (std::size_t i = 0; i < match.source.size(); ++i) {
      if (match.source[i] == kNoSource) continue;
      const TensorSpec &own = state_.tensors[i].spec, &theirs = file_[match.source[i]];
      if (own.shape != theirs.shape || !is_convertible(theirs.dtype, own.dtype))
        problems.different.push_back(
            fmt::format("'{}' is {} in the file and {} in the model", names_.of(i), describe(theirs), describe(own)));
    }
  }

  const std::vector<TensorSpec>& file_;
  const StateDict& state_;
  const ModelNames& names_;
  const Renaming& renaming_;
  const MatchRules& rules_;
  std::vector<std::size_t> taken_;  // of each tensor, then each alias of the state: the tensor of the file
  std::vector<std::size_t> superfluous_;
  std::map<std::size_t, std::string> reasons_;  // why a tensor of the state cannot be read
};

}  // namespace

WeightsMatch match_weights(const std::vector<TensorSpec>& file, const std::vector<formats::OtherEntry>& others,
                           const StateDict& state, const std::string& where, const MatchRules& rules) {
  const ModelNames names(state);
  std::optional<Attempt> best;
  std::string prefix;
  for (const Renaming& renaming : likely_renamings(file, names)) {
    Attempt attempt(file, others, state, names, renaming, rules);
    const bool sound = attempt.problems.count() == 0;
    SHOAL_CHECK(!(sound && best && best->problems.count() == 0 && best->match.source != attempt.match.source),
                CheckpointError, "{}: names agree with the model's both by '{}' and by '{}': rename them in the file",
                where, prefix, renaming.prefix);
    if (best && attempt.problems.count() >= best->problems.count()) continue;
    prefix = renaming.prefix;
    best.emplace(std::move(attempt));
    if (sound && prefix.empty()) break;  // as they stand
  }
  SHOAL_CHECK(best->problems.count() == 0, CheckpointError, "{} does not hold the weights of this model: {}", where,
              best->problems.text());
  return std::move(best->match);
}

}  // namespace shoal::checkpoint

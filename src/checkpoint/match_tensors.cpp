#include "checkpoint/match_tensors.h"

#include <fmt/ranges.h>

#include <map>

#include "checkpoint/file_names.h"
#include "core/check.h"

namespace shoal::checkpoint {
namespace {

std::string renamed(const std::string& tensor, const MatchRules& rules) {
  const std::string_view parameter = parameter_name(tensor);
  return tensor.substr(0, tensor.size() - parameter.size()) + rules.renamed(parameter);
}

std::string quoted(const std::string& name) { return fmt::format("'{}'", name); }

struct Differences {
  std::vector<std::string> missing, extra, shapes, types, twice;

  void compare(const TensorSpec& own, const TensorSpec& theirs) {
    if (own.shape != theirs.shape)
      shapes.push_back(fmt::format("'{}' is [{}] in the checkpoint and [{}] in the model", own.name,
                                   fmt::join(theirs.shape, ", "), fmt::join(own.shape, ", ")));
    if (own.dtype != theirs.dtype)
      types.push_back(fmt::format("'{}' is {} in the checkpoint and {} in the model", own.name, name_of(theirs.dtype),
                                  name_of(own.dtype)));
  }

  std::string text() const {
    std::vector<std::string> parts;
    const auto add = [&](const std::vector<std::string>& items, const char* what) {
      if (!items.empty()) parts.push_back(listed(items, what));
    };
    add(missing, "in the model but not in the checkpoint (--allow-missing)");
    add(extra, "in the checkpoint but not in the model (--allow-extra)");
    add(shapes, "of another shape");
    add(types, "of another type");
    add(twice, "names that two tensors of the checkpoint would have by --rename");
    return fmt::format("{}", fmt::join(parts, "; "));
  }
};

struct Allowed {
  std::vector<std::string> missing, extra, renamed;

  std::vector<std::string> notes() const {
    std::vector<std::string> notes;
    if (!renamed.empty()) notes.push_back(listed(renamed, "renamed"));
    if (!missing.empty()) notes.push_back(listed(missing, "not in the checkpoint, which keep their initial values"));
    if (!extra.empty()) notes.push_back(listed(extra, "of the checkpoint left out"));
    return notes;
  }
};

}  // namespace

TensorMatch match_tensors(const Manifest& manifest, StateDict& state, const MatchRules& rules,
                          const std::string& where) {
  std::map<std::string, ShardedTensor*> wanted;
  for (ShardedTensor& tensor : state.tensors) wanted[tensor.spec.name] = &tensor;
  TensorMatch match;
  Differences differences;
  Allowed allowed;
  std::map<std::string, std::string> taken;
  for (const auto& [spec, rule] : manifest.tensors) {
    const std::string name = renamed(spec.name, rules);
    if (name != spec.name) allowed.renamed.push_back(fmt::format("'{}' to '{}'", spec.name, name));
    if (!taken.emplace(name, spec.name).second) differences.twice.push_back(quoted(name));
    const auto found = wanted.find(name);
    match.tensors.push_back(found == wanted.end() ? nullptr : found->second);
    if (found != wanted.end())
      differences.compare(found->second->spec, spec);
    else
      (rules.may_be_extra(parameter_name(name)) ? allowed.extra : differences.extra).push_back(quoted(name));
  }
  for (const auto& [name, tensor] : wanted)
    if (!taken.contains(name))
      (rules.may_be_missing(parameter_name(name)) ? allowed.missing : differences.missing).push_back(quoted(name));
  const std::string text = differences.text();
  if (!text.empty()) throw ModelMismatch("{} is the checkpoint of another model or optimizer: {}", where, text);
  match.notes = allowed.notes();
  return match;
}

}  // namespace shoal::checkpoint

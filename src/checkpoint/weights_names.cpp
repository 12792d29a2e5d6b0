#include "checkpoint/weights_names.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "checkpoint/file_names.h"
#include "core/check.h"

namespace shoal::checkpoint {
namespace {

// "lm_head.weight" ends "x.lm_head.weight" and "lm_head.weight", but not "my_lm_head.weight".
bool ends_with_name(std::string_view name, std::string_view end) {
  return name.ends_with(end) && (name.size() == end.size() || name[name.size() - end.size() - 1] == '.');
}

// LayerNorm's parameters in the first BERT checkpoints, which TensorFlow wrote.
std::string modern(const std::string& name) {
  if (ends_with_name(name, "gamma")) return name.substr(0, name.size() - 5) + "weight";
  if (ends_with_name(name, "beta")) return name.substr(0, name.size() - 4) + "bias";
  return name;
}

std::string renamed(const std::string& name, const Renaming& renaming) {
  if (!renaming.strip) return renaming.prefix + name;
  return name.starts_with(renaming.prefix) ? name.substr(renaming.prefix.size()) : name;
}

// {strip, prefix} and how many names it would make agree.
using Votes = std::map<std::pair<bool, std::string>, std::size_t>;

// Each prefix of `name` without which it is one of `known`.
template <typename Known>
void vote(const std::string& name, bool strip, const Known& known, Votes& votes) {
  constexpr int kMostLevels = 16;
  std::size_t dot = name.find('.');
  for (int level = 0; dot != std::string::npos && level < kMostLevels; ++level, dot = name.find('.', dot + 1))
    if (known(name.substr(dot + 1))) ++votes[{strip, name.substr(0, dot + 1)}];
}

struct TiedHead {
  std::string_view head, embedding;
};
constexpr std::array<TiedHead, 5> kTiedHeads{{{"lm_head.weight", "wte.weight"},
                                              {"lm_head.weight", "embed_tokens.weight"},
                                              {"lm_head.weight", "word_embeddings.weight"},
                                              {"cls.predictions.decoder.weight", "word_embeddings.weight"},
                                              {"cls.predictions.decoder.bias", "cls.predictions.bias"}}};

}  // namespace

std::string describe(const Renaming& renaming) {
  return renaming.strip ? fmt::format("names of the file have '{}' in front", renaming.prefix)
                        : fmt::format("names of the file lack '{}' in front", renaming.prefix);
}

ModelNames::ModelNames(const StateDict& state) {
  for (const ShardedTensor& tensor : state.tensors) {
    SHOAL_ASSERT(is_model_tensor(tensor.spec.name));
    names_.emplace_back(parameter_name(tensor.spec.name));
  }
  for (const auto& [alias, name] : state.aliases) names_.emplace_back(parameter_name(alias));
  for (std::size_t i = 0; i < names_.size(); ++i) numbers_.emplace(names_[i], i);
  for (const auto& [alias, name] : state.aliases) {
    const auto target = find(parameter_name(name));
    SHOAL_ASSERT(target && *target < state.tensors.size());
    targets_.push_back(*target);
  }
}

std::optional<std::size_t> ModelNames::find(std::string_view name) const {
  const auto found = numbers_.find(name);
  return found == numbers_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<std::size_t> ModelNames::find_renamed(const std::string& name, const Renaming& renaming) const {
  for (const std::string& candidate : {renamed(name, renaming), modern(name), modern(renamed(name, renaming))})
    if (const auto found = find(candidate)) return found;
  return std::nullopt;
}

std::vector<Renaming> likely_renamings(const std::vector<TensorSpec>& file, const ModelNames& names) {
  constexpr std::size_t kMost = 8;
  std::set<std::string> in_file;
  for (const TensorSpec& spec : file) in_file.insert({spec.name, modern(spec.name)});
  Votes votes;
  for (const std::string& name : in_file)
    if (!names.find(name))
      vote(
          name, true, [&](const std::string& end) { return names.find(end).has_value(); }, votes);
  for (std::size_t i = 0; i < names.size(); ++i)
    if (!in_file.contains(names.of(i)))
      vote(
          names.of(i), false, [&](const std::string& end) { return in_file.contains(end); }, votes);
  std::vector<std::pair<std::size_t, Renaming>> ranked;
  for (const auto& [renaming, count] : votes) ranked.push_back({count, {renaming.second, renaming.first}});
  std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<Renaming> renamings{Renaming{}};
  for (std::size_t i = 0; i < std::min(kMost, ranked.size()); ++i) renamings.push_back(std::move(ranked[i].second));
  return renamings;
}

bool is_legacy_name(const std::string& name) { return modern(name) != name; }

bool is_known_buffer(const TensorSpec& spec) {
  const auto ends = [&](std::string_view end) { return ends_with_name(spec.name, end); };
  const std::size_t rank = spec.shape.size();
  // The causal mask, which is [1, 1, positions, positions]; a parameter of that name has one dimension.
  const bool mask = rank == 4 && spec.shape[0] == 1 && spec.shape[1] == 1 && spec.shape[2] == spec.shape[3];
  if (ends("attn.bias") || ends("attention.bias")) return mask;
  if (ends("attn.masked_bias") || ends("attention.masked_bias")) return rank == 0;
  if (ends("rotary_emb.inv_freq")) return rank == 1;
  return ends("position_ids") && !is_floating(spec.dtype);
}

bool is_tied_head(std::string_view head, std::string_view embedding) {
  return std::any_of(kTiedHeads.begin(), kTiedHeads.end(), [&](const TiedHead& tied) {
    return ends_with_name(head, tied.head) && ends_with_name(embedding, tied.embedding);
  });
}

}  // namespace shoal::checkpoint

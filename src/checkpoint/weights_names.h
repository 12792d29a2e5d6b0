// The names of a model's tensors, and how names in foreign files may differ from them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "shard/state_dict.h"

namespace shoal::checkpoint {

// A prefix that names of the file have and the model's lack (`strip`), or the reverse. Empty: none.
struct Renaming {
  std::string prefix;  // with the dot at its end
  bool strip = true;
};
std::string describe(const Renaming& renaming);

// Tensors and aliases of a state as "fc1.weight", numbered: the tensors first, then the aliases.
class ModelNames {
 public:
  explicit ModelNames(const StateDict& state);

  const std::string& of(std::size_t number) const { return names_[number]; }
  std::size_t size() const { return names_.size(); }
  std::size_t target_of_alias(std::size_t alias) const { return targets_[alias]; }  // a tensor's number
  std::optional<std::size_t> find(std::string_view name) const;
  // Under the renaming, and with "gamma" and "beta" taken for "weight" and "bias".
  std::optional<std::size_t> find_renamed(const std::string& name, const Renaming& renaming) const;

 private:
  std::vector<std::string> names_;
  std::vector<std::size_t> targets_;
  std::unordered_map<std::string_view, std::size_t> numbers_;
};

// No renaming, then the prefixes that make the most names agree.
std::vector<Renaming> likely_renamings(const std::vector<TensorSpec>& file, const ModelNames& names);

bool is_legacy_name(const std::string& name);  // "….gamma", "….beta"

// A buffer that files of old versions of transformers have and that is no state.
bool is_known_buffer(const TensorSpec& spec);

// Whether `head` is the name of an output layer's parameter that tied models share with `embedding`.
bool is_tied_head(std::string_view head, std::string_view embedding);

}  // namespace shoal::checkpoint

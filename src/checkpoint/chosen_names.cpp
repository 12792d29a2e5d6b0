#include "checkpoint/chosen_names.h"

#include "core/check.h"
#include "core/glob.h"

namespace shoal::checkpoint {

bool ChosenNames::wants(const std::string& name) {
  if (select_->empty()) return true;
  bool wanted = false;
  for (std::size_t i = 0; i < used_.size(); ++i) {
    if (!glob_matches((*select_)[i], name)) continue;
    used_[i] = wanted = true;
  }
  return wanted;
}

std::string ChosenNames::renamed(const std::string& name) {
  std::string result = rename_->apply(name);
  const auto [other, fresh] = taken_.emplace(result, name);
  SHOAL_CHECK(fresh || other->second == name, OptionError, "--rename gives '{}' and '{}' the one name '{}'",
              other->second, name, result);
  return result;
}

void ChosenNames::check_used() const {
  for (std::size_t i = 0; i < used_.size(); ++i)
    SHOAL_CHECK(used_[i], OptionError,
                "--select '{}' takes none of the model's tensors; '*' stays within a part of a name, '**' does not",
                (*select_)[i]);
}

}  // namespace shoal::checkpoint

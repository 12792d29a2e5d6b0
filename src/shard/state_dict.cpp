#include "shard/state_dict.h"

#include <iterator>

namespace shoal {

std::int64_t TensorSpec::numel() const {
  std::int64_t n = 1;
  for (const std::int64_t extent : shape) n *= extent;
  return n;
}

void StateDict::loaded() const {
  for (const auto& act : on_loaded) act();
}

void StateDict::append(StateDict other) {
  const auto move_all = [](auto& to, auto& from) {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
  };
  move_all(tensors, other.tensors);
  move_all(aliases, other.aliases);
  move_all(owned, other.owned);
  move_all(on_loaded, other.on_loaded);
}

}  // namespace shoal

// Reads a Python pickle as a tree of values and never executes anything: a call that Python would make becomes a node
// that names the callable. Only the opcodes are known that torch.save and torch.distributed.checkpoint need (protocols
// 2 to 5; Python's Lib/pickletools.py).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shoal::formats {

using PickleRef = std::uint32_t;  // a node's place in its Pickle; several nodes may refer to one, also in circles

struct PickleNode {
  enum class Kind { none, boolean, integer, real, text, tuple, list, dictionary, global, call, persistent };
  Kind kind = Kind::none;
  std::int64_t integer = 0;  // integer and boolean
  double real = 0;
  std::string text;  // text or bytes, or a global's "module.name"
  // tuple, list or set: its elements; call, or an object of a class: the callable or class and the tuple of arguments;
  // persistent: the id.
  std::vector<PickleRef> items;
  // Of a dictionary, or set in the result of a call: in order, equal keys not merged.
  std::vector<std::pair<PickleRef, PickleRef>> entries;
  std::optional<PickleRef> state;  // an object's attributes: mostly a dictionary
};

struct Pickle {
  std::vector<PickleNode> nodes;
  PickleRef root = 0;
  const PickleNode& at(PickleRef ref) const { return nodes[ref]; }
};

// `allowed` says which globals ("module.name") may be named. CheckpointError that starts with `where`, for a global
// that may not, for an unknown opcode, and for bytes that are no pickle. Takes memory in proportion to `bytes`, with a
// limit on the number of nodes; nothing is recursive.
Pickle read_pickle(std::string_view bytes, const std::string& where,
                   const std::function<bool(std::string_view global)>& allowed);

}  // namespace shoal::formats

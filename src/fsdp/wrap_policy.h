// Which sub-modules become FSDP units of their own. What no unit takes belongs to the root's unit.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace torch::nn {
class Module;
}

namespace shoal::fsdp {

struct ModuleUnit {
  std::string fqn;  // "" for the root
  torch::nn::Module* module = nullptr;
  // False where it holds parameters of the root that are too large to be whole all the time: like the root's own, what
  // its operators save is never recomputed.
  bool recomputable = true;
};

bool is_within(const std::string& fqn, const std::string& unit);  // of modules; a unit is within itself

class WrapPolicy {
 public:
  virtual ~WrapPolicy() = default;
  virtual std::string text() const = 0;  // as on the command line
  // The modules below `root` to be wrapped, in the order of named_modules(). Units may nest: a parameter belongs to
  // the innermost unit around it.
  virtual std::vector<ModuleUnit> select(torch::nn::Module& root) const = 0;
};

// "none" | "size:MIN_PARAMS" | "class:NAME,…" | "name:GLOB,…", and after it "+rest:MIN_PARAMS" or nothing; OptionError
// that names --wrap otherwise.
//   size   PyTorch's size_based_auto_wrap_policy: bottom-up, a module whose parameters not yet wrapped below it number
//          at least MIN_PARAMS; never a ModuleList or ModuleDict, never inside a MultiheadAttention.
//   class  the C++ class, with or without namespaces and "Impl": "Block" takes BlockImpl. Of models from Python, the
//          Python class.
//   name   a shell pattern on the module's fully qualified name; '*' does not cross dots, "**" does.
//   rest   of what is left to the root, each module that has at least MIN_PARAMS parameters by itself, none of which is
//          tied to another module's: an embedding, an output matrix.
std::unique_ptr<WrapPolicy> parse_wrap_policy(const std::string& text);

}  // namespace shoal::fsdp

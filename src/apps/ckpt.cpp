// shoal-ckpt: looks at, checks and converts checkpoints. Needs the files alone: no GPU, no MPI, no LibTorch.
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "apps/ckpt_verbs.h"
#include "apps/command_line.h"
#include "apps/run_program.h"
#include "core/check.h"
#include "core/logging.h"
#include "core/nearest.h"

namespace shoal::apps {
namespace {

constexpr const char* kHelp =
    "shoal ckpt VERB PATH [options]\n"
    "\n"
    "PATH is a checkpoint, or a directory of checkpoints, whose newest is meant.\n"
    "\n"
    "  list         which checkpoints there are\n"
    "  inspect      what one holds: tensors, files, training state\n"
    "  verify       read and check every byte\n"
    "  diff         tensor by tensor, what tells two apart\n"
    "  export       write files with whole tensors, for HDF5, safetensors or PyTorch\n"
    "  consolidate  another name of export\n"
    "  import       make one out of what PyTorch, DeepSpeed or Hugging Face have saved\n"
    "  view         make model.h5 in it, which shows whole tensors to HDF5 tools\n"
    "  reshard      write it anew for another number of ranks\n"
    "  prune        delete old ones\n"
    "  repair       set damaged newest ones aside, so that a start finds the newest sound one\n"
    "\n"
    "shoal ckpt VERB --help shows the options of a verb.";

struct NamedVerb {
  std::string_view name;
  CkptVerb run;
};
constexpr std::array<NamedVerb, 11> kVerbs{{{"list", ckpt_list},
                                            {"inspect", ckpt_inspect},
                                            {"verify", ckpt_verify},
                                            {"diff", ckpt_diff},
                                            {"export", ckpt_export},
                                            {"consolidate", ckpt_consolidate},
                                            {"import", ckpt_import},
                                            {"view", ckpt_view},
                                            {"reshard", ckpt_reshard},
                                            {"prune", ckpt_prune},
                                            {"repair", ckpt_repair}}};
constexpr const char* kVerbNames = "list, inspect, verify, diff, export, import, view, reshard, prune or repair";

}  // namespace

ExitCode run(const std::vector<std::string>& arguments) {
  SHOAL_CHECK(!arguments.empty(), OptionError, "the verb is missing: {}; see shoal ckpt --help", kVerbNames);
  const std::string& verb = arguments.front();
  if (verb == "--help") {
    log::print_result(kHelp);
    return ExitCode::ok;
  }
  if (verb == kDescribe) {
    for (const NamedVerb& known : kVerbs) known.run(arguments);
    return ExitCode::ok;
  }
  std::vector<std::string> names;
  for (const NamedVerb& known : kVerbs) {
    if (known.name == verb) return known.run({arguments.begin() + 1, arguments.end()});
    names.emplace_back(known.name);
  }
  throw OptionError("'{}' is no verb of shoal ckpt{}", verb,
                    did_you_mean(verb, names, fmt::format(": {}", kVerbNames)));
}

}  // namespace shoal::apps

int main(int argc, char** argv) {
  return static_cast<int>(shoal::apps::run_program([&] { return shoal::apps::run({argv + 1, argv + argc}); }));
}

// shoal-ckpt: looks at, checks and converts checkpoints. Needs the files alone: no GPU, no MPI, no LibTorch.
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "apps/ckpt_verbs.h"
#include "apps/run_program.h"
#include "core/check.h"
#include "core/logging.h"

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
    "  consolidate  write one file with whole tensors, for HDF5 or PyTorch\n"
    "\n"
    "shoal ckpt VERB --help shows the options of a verb.";

struct NamedVerb {
  std::string_view name;
  CkptVerb run;
};
constexpr std::array<NamedVerb, 4> kVerbs{
    {{"list", ckpt_list}, {"inspect", ckpt_inspect}, {"verify", ckpt_verify}, {"consolidate", ckpt_consolidate}}};

}  // namespace

ExitCode run(const std::vector<std::string>& arguments) {
  SHOAL_CHECK(!arguments.empty(), OptionError,
              "the verb is missing: list, inspect, verify or consolidate; see shoal ckpt --help");
  const std::string& verb = arguments.front();
  if (verb == "--help") {
    log::print_result(kHelp);
    return ExitCode::ok;
  }
  for (const NamedVerb& known : kVerbs)
    if (known.name == verb) return known.run({arguments.begin() + 1, arguments.end()});
  throw OptionError("'{}' is no verb of shoal ckpt: list, inspect, verify or consolidate", verb);
}

}  // namespace shoal::apps

int main(int argc, char** argv) {
  return static_cast<int>(shoal::apps::run_program([&] { return shoal::apps::run({argv + 1, argv + argc}); }));
}

#include <boost/program_options/value_semantic.hpp>

#include "apps/ckpt_options.h"
#include "apps/ckpt_text.h"
#include "apps/ckpt_verbs.h"
#include "checkpoint/catalog.h"
#include "checkpoint/consolidate.h"
#include "core/check.h"
#include "core/logging.h"

namespace shoal::apps {
namespace po = boost::program_options;
namespace {

checkpoint::ConsolidatedFormat format_named(const std::string& name) {
  if (name == "hdf5") return checkpoint::ConsolidatedFormat::hdf5;
  SHOAL_CHECK(name == "pt", OptionError, "--format {} is not known; it is hdf5 or pt", name);
  return checkpoint::ConsolidatedFormat::torch;
}

checkpoint::ConsolidatedFormat format_of_suffix(const std::filesystem::path& output) {
  const std::string suffix = output.extension().string();
  if (suffix == ".pt" || suffix == ".pth" || suffix == ".bin") return checkpoint::ConsolidatedFormat::torch;
  SHOAL_CHECK(suffix == ".h5" || suffix == ".hdf5", OptionError,
              "the suffix of --output {} tells no format; give --format hdf5 or --format pt", output.string());
  return checkpoint::ConsolidatedFormat::hdf5;
}

checkpoint::ConsolidateOptions options_from(const po::variables_map& values) {
  SHOAL_CHECK(values.count("output"), OptionError, "shoal ckpt consolidate: give --output FILE");
  checkpoint::ConsolidateOptions options;
  options.output = values["output"].as<std::string>();
  options.format =
      values.count("format") ? format_named(values["format"].as<std::string>()) : format_of_suffix(options.output);
  options.with_optimizer = values.count("with-optimizer") > 0;
  options.force = values.count("force") > 0;
  options.checkpoint = checkpoint::resolve_checkpoint(path_of(values));
  return options;
}

}  // namespace

ExitCode ckpt_consolidate(const std::vector<std::string>& arguments) {
  po::options_description described;
  described.add_options()("output", po::value<std::string>()->value_name("FILE"), "the file to write");
  described.add_options()("format", po::value<std::string>()->value_name("NAME"),
                          "hdf5: datasets under the parameters' names; pt: a state dict for "
                          "torch.load(weights_only=True). Unless given, the suffix tells: .h5 .hdf5, .pt .pth .bin");
  described.add_options()("with-optimizer", "with the optimizer's state, under /optimizer (hdf5 only)");
  described.add_options()("force", "replace FILE where it exists");
  po::variables_map values;
  const CkptUsage usage{"consolidate", "PATH --output FILE [--format NAME] [--with-optimizer] [--force]",
                        "Writes one file with whole tensors from a sharded checkpoint, in bounded memory.",
                        "shoal ckpt consolidate checkpoints/mnist --output mnist.pt"};
  if (!parse_ckpt_options(usage, described, arguments, values)) return ExitCode::ok;
  const checkpoint::ConsolidateOptions options = options_from(values);
  const checkpoint::ConsolidateReport report = checkpoint::consolidate(options);
  log::result("{}: {} tensors, {}, from {} in {:.2f} s", options.output.string(), report.tensors,
              human_bytes(report.bytes), options.checkpoint.string(), report.seconds);
  return ExitCode::ok;
}

}  // namespace shoal::apps

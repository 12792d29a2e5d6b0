#include "checkpoint/reshard.h"

#include <boost/program_options/value_semantic.hpp>

#include "apps/ckpt_options.h"
#include "apps/ckpt_text.h"
#include "apps/ckpt_verbs.h"
#include "checkpoint/catalog.h"
#include "core/check.h"
#include "core/logging.h"

namespace shoal::apps {
namespace po = boost::program_options;

ExitCode ckpt_reshard(const std::vector<std::string>& arguments) {
  po::options_description options;
  options.add_options()("ranks", po::value<int>()->value_name("M"), "ranks of the new checkpoint")(
      "output", po::value<std::string>()->value_name("DIR"), "a new directory of checkpoints, for --checkpoint-dir");
  add_workers_option(options);
  po::variables_map values;
  const CkptUsage usage{
      "reshard", "PATH --ranks M --output DIR [--workers N]",
      "Writes a checkpoint anew for M ranks, with the same step and training state, and reads it back. A restart does\n"
      "not need it, since it takes a checkpoint of any number of ranks: it saves a large job the reading of shards\n"
      "that are cut elsewhere, and gives fewer or more files.",
      "shoal ckpt reshard checkpoints/llama --ranks 64 --output checkpoints/llama-64"};
  if (!parse_ckpt_options(usage, options, arguments, values)) return ExitCode::ok;
  SHOAL_CHECK(values.count("ranks"), OptionError, "shoal ckpt reshard: give --ranks M");
  SHOAL_CHECK(values.count("output"), OptionError, "shoal ckpt reshard: give --output DIR");
  const auto path = checkpoint::resolve_checkpoint(path_of(values));
  const checkpoint::ReshardReport report =
      checkpoint::reshard({path, values["output"].as<std::string>(), values["ranks"].as<int>(), workers_of(values)});
  log::result("{}: {} of tensors from {} to {} ranks in {:.2f} s, of which reading it back took {:.2f} s: sound",
              report.path.string(), human_bytes(report.bytes), report.ranks_before, values["ranks"].as<int>(),
              report.seconds, report.verify_seconds);
  return ExitCode::ok;
}

}  // namespace shoal::apps

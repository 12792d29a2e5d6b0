#include "checkpoint/view.h"

#include "apps/ckpt_options.h"
#include "apps/ckpt_text.h"
#include "apps/ckpt_verbs.h"
#include "checkpoint/catalog.h"
#include "core/logging.h"

namespace shoal::apps {

ExitCode ckpt_view(const std::vector<std::string>& arguments) {
  boost::program_options::options_description options;
  options.add_options()("with-optimizer", "with the optimizer's state, under /optimizer");
  boost::program_options::variables_map values;
  const CkptUsage usage{
      "view", "PATH [--with-optimizer]",
      "Makes model.h5 in a checkpoint, or makes it anew: whole tensors for h5dump, h5py, HDFView and the like, whose\n"
      "elements stay in the shard files. For looking at: where a shard file is missing, HDF5 shows NaN (of integers "
      "an\n"
      "extreme value) and no error. Shoal itself never reads it. To hand on, use shoal ckpt consolidate.",
      "shoal ckpt view checkpoints/mnist && h5dump -H checkpoints/mnist/step_00000500/model.h5"};
  if (!parse_ckpt_options(usage, options, arguments, values)) return ExitCode::ok;
  const auto path = checkpoint::resolve_checkpoint(path_of(values));
  const checkpoint::ViewReport report =
      checkpoint::write_view(path, checkpoint::open_checkpoint(path), values.count("with-optimizer") > 0);
  log::result("{}: {} tensors in {} shard files, {}, in {:.2f} s", report.path.string(), report.tensors, report.files,
              human_bytes(report.bytes), report.seconds);
  return ExitCode::ok;
}

}  // namespace shoal::apps

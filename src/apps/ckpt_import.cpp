#include <boost/program_options/value_semantic.hpp>

#include "apps/ckpt_options.h"
#include "apps/ckpt_text.h"
#include "apps/ckpt_verbs.h"
#include "checkpoint/import.h"
#include "core/check.h"
#include "core/logging.h"

namespace shoal::apps {
namespace po = boost::program_options;
namespace {

DType dtype_of(const std::string& name) {
  if (name == "fp32") return DType::float32;
  if (name == "bf16") return DType::bfloat16;
  if (name == "fp16") return DType::float16;
  throw OptionError("--dtype {} is none of fp32, bf16 and fp16", name);
}

po::options_description import_options() {
  po::options_description options;
  options.add_options()("output", po::value<std::string>()->value_name("DIR"),
                        "a new directory of checkpoints, for --checkpoint-dir or --init-from")(
      "ranks", po::value<int>()->default_value(1)->value_name("N"), "cut for N ranks: as many files")(
      "key", po::value<std::string>()->default_value("")->value_name("PATH"),
      "the dictionary in the source that holds the model, as in state.ema.model")("weights-only", po::bool_switch(),
                                                                                  "leave the optimizer's state out")(
      "dtype", po::value<std::string>()->value_name("fp32|bf16|fp16"), "of all floating tensors; else as they are")(
      "step", po::value<std::int64_t>()->value_name("N"), "optimizer steps done, where the source does not tell")(
      "dry-run", po::bool_switch(), "say what there is to import, and write nothing");
  return options;
}

void print_report(const checkpoint::ImportReport& report) {
  for (const std::string& note : report.notes) log::info("{}", note);
  const std::string what =
      fmt::format("{} of {} tensors of the model and {} of the optimizer, step {} ({})", human_bytes(report.bytes),
                  report.model_tensors, report.optimizer_tensors, report.step, report.format);
  if (report.path.empty())
    log::result("{}: nothing was written (--dry-run)", what);
  else
    log::result("{}: {} in {:.2f} s, of which reading it back took {:.2f} s: sound", report.path.string(), what,
                report.seconds, report.verify_seconds);
}

}  // namespace

ExitCode ckpt_import(const std::vector<std::string>& arguments) {
  po::options_description options = import_options();
  add_workers_option(options);
  po::variables_map values;
  const CkptUsage usage{
      "import", "SOURCE --output DIR [--ranks N] [--key PATH] [--weights-only] [--dtype T] [--step N] [--dry-run]",
      "Makes a checkpoint of what others have saved: a file of safetensors or torch.save, a folder of Hugging Face, a\n"
      "directory of torch.distributed.checkpoint or a folder of DeepSpeed. Where the optimizer's state is there,\n"
      "shoal train --resume goes on from it; else it is a start for --init-from. Nothing of the source is executed.",
      "shoal ckpt import runs/fsdp2/step-1000 --output checkpoints/llama --ranks 64"};
  if (!parse_ckpt_options(usage, options, arguments, values)) return ExitCode::ok;
  SHOAL_CHECK(values.count("output"), OptionError, "shoal ckpt import: give --output DIR");
  checkpoint::ImportOptions import{.source = path_of(values),
                                   .output = values["output"].as<std::string>(),
                                   .ranks = values["ranks"].as<int>(),
                                   .key = values["key"].as<std::string>(),
                                   .weights_only = values["weights-only"].as<bool>(),
                                   .dtype = std::nullopt,
                                   .step = std::nullopt,
                                   .workers = workers_of(values),
                                   .dry_run = values["dry-run"].as<bool>()};
  if (values.count("dtype")) import.dtype = dtype_of(values["dtype"].as<std::string>());
  if (values.count("step")) {
    import.step = values["step"].as<std::int64_t>();
    SHOAL_CHECK(*import.step >= 0, OptionError, "--step {} is no number of steps; it is 0 or more", *import.step);
  }
  print_report(checkpoint::import_checkpoint(import));
  return ExitCode::ok;
}

}  // namespace shoal::apps

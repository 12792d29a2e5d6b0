#include <boost/program_options/value_semantic.hpp>

#include "apps/ckpt_options.h"
#include "apps/ckpt_text.h"
#include "apps/ckpt_verbs.h"
#include "apps/progress_line.h"
#include "checkpoint/import.h"
#include "core/check.h"
#include "core/logging.h"

namespace shoal::apps {
namespace po = boost::program_options;
namespace {

po::options_description import_options() {
  po::options_description options;
  options.add_options()("output", po::value<std::string>()->value_name("DIR"),
                        "a new directory of checkpoints, for --checkpoint-dir or --init-from")(
      "ranks", po::value<int>()->default_value(1)->value_name("N"), "cut for N ranks: as many files")(
      "key", po::value<std::string>()->default_value("")->value_name("PATH"),
      "the dictionary in the source that holds the model, as in state.ema.model")("weights-only", po::bool_switch(),
                                                                                  "leave the optimizer's state out")(
      "step", po::value<std::int64_t>()->value_name("N"), "optimizer steps done, where the source does not tell")(
      "dry-run", po::bool_switch(), "say what would be written and the memory it takes, and write nothing");
  add_dtype_option(options, "of all floating tensors; else as they are");
  add_choice_options(options);
  return options;
}

// What would be written, tensor by tensor, and where the memory would go.
void print_plan(const checkpoint::ImportReport& report, int ranks) {
  std::vector<std::vector<std::string>> rows{{"tensor", "type", "shape", "size"}};
  for (const auto& [spec, rule] : report.tensors)
    rows.push_back({spec.name, std::string(name_of(spec.dtype)), shape_text(spec.shape),
                    human_bytes(spec.numel() * size_of(spec.dtype))});
  for (const auto& [alias, name] : report.aliases) rows.push_back({alias, "", "", "as " + name});
  log::print_result(table_text(rows));
  log::result("{} shard files of about {} each", ranks, human_bytes(report.bytes / ranks));
  log::result("memory: {} for tables, {} for the buffers of {} threads", human_bytes(report.memory.tables),
              human_bytes(report.memory.buffers), report.memory.workers);
}

void print_report(const checkpoint::ImportReport& report, int ranks) {
  for (const std::string& note : report.notes) log::info("{}", note);
  const std::string what =
      fmt::format("{} of {} tensors of the model and {} of the optimizer, step {} ({})", human_bytes(report.bytes),
                  report.model_tensors, report.optimizer_tensors, report.step, report.format);
  if (report.path.empty()) {
    print_plan(report, ranks);
    log::result("{}: nothing was written (--dry-run)", what);
  } else {
    log::result("{}: {} in {:.2f} s, of which reading it back took {:.2f} s: sound", report.path.string(), what,
                report.seconds, report.verify_seconds);
  }
}

checkpoint::ImportOptions options_from(const po::variables_map& values) {
  checkpoint::ImportOptions wanted;
  wanted.source = path_of(values);
  wanted.output = values["output"].as<std::string>();
  wanted.ranks = values["ranks"].as<int>();
  wanted.key = values["key"].as<std::string>();
  wanted.weights_only = values["weights-only"].as<bool>();
  wanted.select = selected_by(values);
  wanted.rename = renamed_by(values);
  wanted.dtype = dtype_of(values);
  wanted.workers = workers_of(values);
  wanted.memory = memory_of(values);
  wanted.dry_run = values["dry-run"].as<bool>();
  if (values.count("step")) {
    wanted.step = values["step"].as<std::int64_t>();
    SHOAL_CHECK(*wanted.step >= 0, OptionError, "--step {} is no number of steps; it is 0 or more", *wanted.step);
  }
  return wanted;
}

}  // namespace

ExitCode ckpt_import(const std::vector<std::string>& arguments) {
  po::options_description options = import_options();
  add_workers_option(options);
  add_memory_option(options);
  po::variables_map values;
  const CkptUsage usage{
      "import", "SOURCE --output DIR [options]",
      "Makes a checkpoint of what others have saved: a file of safetensors or torch.save, a folder of Hugging Face, a\n"
      "directory of torch.distributed.checkpoint or a folder of DeepSpeed. Where the optimizer's state is there,\n"
      "shoal train --resume goes on from it; else it is a start for --init-from. Nothing of the source is executed.",
      "shoal ckpt import runs/fsdp2/step-1000 --output checkpoints/llama --ranks 64"};
  if (!parse_ckpt_options(usage, options, arguments, values)) return ExitCode::ok;
  SHOAL_CHECK(values.count("output"), OptionError, "shoal ckpt import: give --output DIR");
  checkpoint::ImportOptions wanted = options_from(values);
  checkpoint::ImportReport report;
  {
    ProgressLine line;
    wanted.progress = [&](bool checking, std::int64_t bytes, std::int64_t all_bytes) {
      line.show(checking ? "reading back" : "copying", bytes, all_bytes);
    };
    report = checkpoint::import_checkpoint(wanted);
  }
  print_report(report, wanted.ranks);
  return ExitCode::ok;
}

}  // namespace shoal::apps

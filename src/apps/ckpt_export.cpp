#include <unistd.h>

#include <boost/program_options/value_semantic.hpp>

#include "apps/ckpt_options.h"
#include "apps/ckpt_text.h"
#include "apps/ckpt_verbs.h"
#include "apps/progress_line.h"
#include "checkpoint/catalog.h"
#include "checkpoint/export.h"
#include "core/check.h"
#include "core/logging.h"
#include "launch/slurm_environment.h"
#include "launch/variables.h"

namespace shoal::apps {
namespace po = boost::program_options;
namespace {

using checkpoint::ExportFormat;
using Strings = std::vector<std::string>;

ExportFormat format_named(const std::string& name) {
  if (name == "hdf5") return ExportFormat::hdf5;
  if (name == "safetensors") return ExportFormat::safetensors;
  if (name == "npz") return ExportFormat::npz;
  SHOAL_CHECK(name == "pt", OptionError, "--format {} is not known; it is hdf5, safetensors, pt or npz", name);
  return ExportFormat::torch;
}

ExportFormat format_of(const po::variables_map& values, const std::filesystem::path& output) {
  if (values.count("format")) return format_named(values["format"].as<std::string>());
  const std::string suffix = output.extension().string();
  if (suffix == ".safetensors" || values.count("max-shard-size")) return ExportFormat::safetensors;
  if (suffix == ".pt" || suffix == ".pth" || suffix == ".bin") return ExportFormat::torch;
  if (suffix == ".npz") return ExportFormat::npz;
  SHOAL_CHECK(suffix == ".h5" || suffix == ".hdf5", OptionError,
              "the suffix of --output {} tells no format; give --format hdf5, safetensors, pt or npz", output.string());
  return ExportFormat::hdf5;
}

checkpoint::ExportSelection selection_from(const po::variables_map& values) {
  checkpoint::ExportSelection selection;
  selection.with_optimizer = values.count("with-optimizer") > 0;
  selection.dtype = dtype_of(values);
  selection.select = selected_by(values);
  selection.rename = renamed_by(values);
  return selection;
}

bool is_on(const po::variables_map& values, const char* option) {
  const std::string text = values[option].as<std::string>();
  SHOAL_CHECK(text == "on" || text == "off", OptionError, "--{} takes on or off, not '{}'", option, text);
  return text == "on";
}

checkpoint::ExportOptions options_from(const std::string& verb, const po::variables_map& values) {
  SHOAL_CHECK(values.count("output"), OptionError, "shoal ckpt {}: give --output FILE", verb);
  checkpoint::ExportOptions options;
  options.output = values["output"].as<std::string>();
  options.format = format_of(values, options.output);
  options.selection = selection_from(values);
  options.force = values.count("force") > 0;
  if (values.count("max-shard-size"))
    options.shard_bytes = bytes_from("max-shard-size", values["max-shard-size"].as<std::string>());
  options.memory = memory_of(values);
  options.workers = workers_of(values);
  options.direct = is_on(values, "direct-io");
  options.read_back = is_on(values, "read-back");
  options.checkpoint = checkpoint::resolve_checkpoint(path_of(values));
  return options;
}

// Under srun with several tasks: which one of them this process is.
checkpoint::ExportMember member_of_step() {
  const launch::SlurmEnvironment slurm = launch::read_slurm_environment(launch::read_environment(environ));
  if (slurm.launcher != launch::Launcher::srun || !slurm.tasks || slurm.tasks->value < 2) return {};
  require_sound(slurm);
  const std::int64_t step = slurm.step_id ? slurm.step_id->value : 0;
  const std::int64_t restarts = slurm.restart_count ? slurm.restart_count->value : 0;
  return {static_cast<int>(slurm.procid->value), static_cast<int>(slurm.tasks->value),
          fmt::format("job {} step {} start {}", slurm.job_id->value, step, restarts)};
}

po::options_description described() {
  po::options_description options;
  const auto text = [](const char* name) { return po::value<std::string>()->value_name(name); };
  options.add_options()("output", text("PATH"), "the file to write; with --max-shard-size the folder");
  options.add_options()("format", text("NAME"),
                        "hdf5: datasets under the parameters' names; safetensors; pt: a state dict for "
                        "torch.load(weights_only=True); npz: for numpy.load(). Unless given, the suffix tells: .h5 "
                        ".hdf5, .safetensors, .pt .pth .bin, .npz");
  options.add_options()("max-shard-size", text("SIZE"),
                        "safetensors: several files of at most SIZE (5GB, 500MiB) with an index, as transformers "
                        "writes them");
  add_dtype_option(options, "rounds the model's floating tensors to this type, to nearest even");
  options.add_options()("with-optimizer",
                        "with the optimizer's state: under /optimizer (hdf5), or as torch's state_dict() (pt)");
  add_choice_options(options);
  constexpr int kWorkers = 4;  // they wait for the disk more than they compute
  add_workers_option(options, "threads that read, convert and write", kWorkers);
  add_memory_option(options);
  options.add_options()("direct-io", text("on|off")->default_value("on"),
                        "reads and writes past the system's page cache, where the file system takes that; off: "
                        "through it, which is faster where the files are in it");
  options.add_options()("read-back", text("on|off")->default_value("on"),
                        "reads the result back and compares it before it gets its name; off: trusts the disk with "
                        "what it has synced, and with what an export that was killed had");
  options.add_options()("dry-run", "says what would be written, and writes nothing");
  options.add_options()("force", "replace what is there");
  return options;
}

void print_plan(const checkpoint::Export& job) {
  const checkpoint::ExportSource& source = job.source();
  std::vector<Strings> rows{{"tensor", "type", "shape", "size", "file"}};
  const auto row = [&](const std::string& name, std::size_t tensor, bool alias) {
    const auto& [index, spec, state] = source.plan.tensors[tensor];
    const auto& file = source.layout.files[source.layout.places[tensor].file];
    rows.push_back({state.empty() ? name : fmt::format("{} of {}", state, name), std::string(name_of(spec.dtype)),
                    shape_text(spec.shape),
                    alias ? "as " + spec.name : human_bytes(bytes_of(source.plan.tensors[tensor])),
                    file.path.filename().string()});
  };
  for (std::size_t i = 0; i < source.plan.tensors.size(); ++i) row(source.plan.tensors[i].spec.name, i, false);
  for (const auto& [alias, tensor] : source.plan.aliases) row(alias, tensor, true);
  log::print_result(table_text(rows));
  for (const auto& [path, bytes] : source.layout.files) log::result("{}: {}", path.string(), human_bytes(bytes));
  log::result("memory: {} for tables, {} for the buffers of {} threads", human_bytes(job.memory().tables),
              human_bytes(job.memory().buffers), job.memory().workers);
}

ExitCode run_export(const std::string& verb, const Strings& arguments) {
  po::variables_map values;
  const CkptUsage usage{verb, "PATH --output PATH [options]",
                        "Writes whole tensors from a sharded checkpoint, in bounded memory. The same command goes on "
                        "with an export that was killed.",
                        "shoal ckpt " + verb + " checkpoints/mnist --output mnist.safetensors --dtype bf16"};
  if (!parse_ckpt_options(usage, described(), arguments, values)) return ExitCode::ok;
  ProgressLine line;
  checkpoint::ExportOptions options = options_from(verb, values);
  options.progress = [&](const checkpoint::ExportProgress& at) {
    line.show(at.checking ? "reading back" : "copying", at.bytes, at.all_bytes, at.bytes_before);
  };
  options.member = member_of_step();
  if (options.member.count > 1) log::set_rank(options.member.index);
  checkpoint::Export job(options);
  if (values.count("dry-run")) {
    print_plan(job);
    return ExitCode::ok;
  }
  const checkpoint::ExportReport report = job.run();
  if (report.bytes_before > 0) log::info("{} of them had been copied before", human_bytes(report.bytes_before));
  const std::string check =
      options.read_back ? fmt::format("{:.2f} s of it to read them back", report.check_seconds) : "not read back";
  log::result("{}: {} tensors, {}, from {} in {:.2f} s, {}", options.output.string(), report.tensors,
              human_bytes(report.bytes), options.checkpoint.string(), report.seconds, check);
  return ExitCode::ok;
}

}  // namespace

ExitCode ckpt_export(const Strings& arguments) { return run_export("export", arguments); }
ExitCode ckpt_consolidate(const Strings& arguments) { return run_export("consolidate", arguments); }

}  // namespace shoal::apps

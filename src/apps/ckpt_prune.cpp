#include "checkpoint/prune.h"

#include <boost/program_options/value_semantic.hpp>
#include <nlohmann/json.hpp>

#include "apps/ckpt_options.h"
#include "apps/ckpt_text.h"
#include "apps/ckpt_verbs.h"
#include "core/check.h"
#include "core/logging.h"

namespace shoal::apps {
namespace po = boost::program_options;
namespace {

using checkpoint::Fate;

const char* fate_text(Fate fate, bool dry_run) {
  switch (fate) {
    case Fate::kept: return "kept";
    case Fate::removed: return dry_run ? "would go" : "deleted";
    case Fate::left: return "left alone";
  }
  return "";
}

void print_report(const checkpoint::PruneReport& report, bool dry_run) {
  std::vector<std::vector<std::string>> rows{{"checkpoint", "size", "fate", "why"}};
  std::int64_t count = 0, bytes = 0;
  for (const checkpoint::PrunedCheckpoint& entry : report.checkpoints) {
    rows.push_back(
        {entry.path.filename().string(), human_bytes(entry.bytes), fate_text(entry.fate, dry_run), entry.reason});
    if (entry.fate != Fate::removed) continue;
    ++count;
    bytes += entry.bytes;
  }
  log::print_result(table_text(rows));
  if (count == 0) return log::print_result("nothing to delete");
  log::result("{} {}, {}; {} verifies", count, dry_run ? "would be deleted" : "deleted", human_bytes(bytes),
              report.verified.string());
}

const char* fate_name(Fate fate) {
  switch (fate) {
    case Fate::kept: return "kept";
    case Fate::removed: return "removed";
    case Fate::left: return "left";
  }
  return "";
}

void print_json(const checkpoint::PruneReport& report, bool dry_run) {
  nlohmann::ordered_json json{{"dry_run", dry_run}, {"verified", report.verified.string()}};
  json["checkpoints"] = nlohmann::ordered_json::array();
  for (const checkpoint::PrunedCheckpoint& entry : report.checkpoints)
    json["checkpoints"].push_back({{"path", entry.path.string()},
                                   {"step", entry.step},
                                   {"bytes", entry.bytes},
                                   {"fate", fate_name(entry.fate)},
                                   {"reason", entry.reason}});
  log::print_result(json.dump(2));
}

checkpoint::PruneOptions options_from(const po::variables_map& values) {
  SHOAL_CHECK(values.count("keep") || values.count("keep-every"), OptionError,
              "shoal ckpt prune: give --keep N, the newest to keep, or --keep-every K, or both");
  checkpoint::PruneOptions options;
  options.directory = path_of(values);
  if (values.count("keep")) options.keep = values["keep"].as<int>();
  if (values.count("keep-every")) {
    options.keep_every = values["keep-every"].as<std::int64_t>();
    SHOAL_CHECK(options.keep_every >= 1, OptionError, "--keep-every {} is no number of steps; it is 1 or more",
                options.keep_every);
  }
  options.dry_run = values.count("dry-run") > 0;
  options.workers = workers_of(values);
  return options;
}

}  // namespace

ExitCode ckpt_prune(const std::vector<std::string>& arguments) {
  po::options_description described;
  described.add_options()("keep", po::value<int>()->value_name("N"), "keep the newest N sound checkpoints (1)")(
      "keep-every", po::value<std::int64_t>()->value_name("K"), "keep those, too, whose step is a multiple of K")(
      "dry-run", "only tell what would go")("json", "print JSON");
  add_workers_option(described);
  po::variables_map values;
  const CkptUsage usage{
      "prune", "DIR [--keep N] [--keep-every K] [--dry-run] [--workers N] [--json]",
      "Deletes old checkpoints of a directory, once one that stays was read and verified. Damaged ones and what a\n"
      "running job is writing are left alone; where a new attempt of the job begins meanwhile, it stops (exit code "
      "22).",
      "shoal ckpt prune checkpoints/mnist --keep 3 --keep-every 1000 --dry-run"};
  if (!parse_ckpt_options(usage, described, arguments, values)) return ExitCode::ok;
  const checkpoint::PruneOptions options = options_from(values);
  const checkpoint::PruneReport report = checkpoint::prune_checkpoints(options);
  values.count("json") ? print_json(report, options.dry_run) : print_report(report, options.dry_run);
  return ExitCode::ok;
}

}  // namespace shoal::apps

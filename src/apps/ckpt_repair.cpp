#include "checkpoint/repair.h"

#include <nlohmann/json.hpp>

#include "apps/ckpt_options.h"
#include "apps/ckpt_verbs.h"
#include "core/logging.h"

namespace shoal::apps {
namespace {

void print_report(const checkpoint::RepairReport& report, bool dry_run) {
  for (const checkpoint::SetAside& aside : report.damaged) {
    log::result("{} is damaged: {}", aside.path.string(), aside.problem);
    log::print_result(dry_run ? "  would be renamed to damaged_step_…"
                              : "  renamed to " + aside.evidence.filename().string());
  }
  log::result("{}: sound; {}", report.newest_sound.string(),
              report.damaged.empty() ? "there is nothing to repair"
              : dry_run              ? "the next start would resume from it"
                                     : "the next start resumes from it");
}

void print_json(const checkpoint::RepairReport& report, bool dry_run) {
  nlohmann::ordered_json json{{"dry_run", dry_run}, {"newest_sound", report.newest_sound.string()}};
  json["damaged"] = nlohmann::ordered_json::array();
  for (const checkpoint::SetAside& aside : report.damaged) {
    json["damaged"].push_back({{"path", aside.path.string()}, {"problem", aside.problem}});
    if (!dry_run) json["damaged"].back()["renamed_to"] = aside.evidence.string();
  }
  log::print_result(json.dump(2));
}

}  // namespace

ExitCode ckpt_repair(const std::vector<std::string>& arguments) {
  boost::program_options::options_description options;
  options.add_options()("dry-run", "only tell what is damaged and what would be renamed")("json", "print JSON");
  add_workers_option(options);
  boost::program_options::variables_map values;
  const CkptUsage usage{
      "repair", "DIR [--dry-run] [--workers N] [--json]",
      "Reads the checkpoints of a directory, newest first, until one verifies. Those that do not are renamed to\n"
      "damaged_step_…, which Shoal neither reads nor deletes, so that the next start resumes from the sound one.",
      "shoal ckpt repair checkpoints/mnist --dry-run"};
  if (!parse_ckpt_options(usage, options, arguments, values)) return ExitCode::ok;
  const bool dry_run = values.count("dry-run") > 0;
  const checkpoint::RepairReport report = checkpoint::repair_checkpoints(path_of(values), dry_run, workers_of(values));
  values.count("json") ? print_json(report, dry_run) : print_report(report, dry_run);
  return ExitCode::ok;
}

}  // namespace shoal::apps

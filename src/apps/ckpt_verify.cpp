#include "checkpoint/verify.h"

#include <nlohmann/json.hpp>

#include "apps/ckpt_options.h"
#include "apps/ckpt_text.h"
#include "apps/ckpt_verbs.h"
#include "checkpoint/catalog.h"
#include "core/logging.h"

namespace shoal::apps {
namespace {

using Json = nlohmann::ordered_json;

double megabytes_per_second(const checkpoint::VerifyReport& report) {
  return report.seconds > 0 ? static_cast<double>(report.bytes) / report.seconds / 1e6 : 0;
}

void print_text(const checkpoint::VerifyReport& report) {
  std::vector<std::vector<std::string>> rows{{"file", "size", "regions", "state"}};
  for (const checkpoint::FileCheck& file : report.files)
    rows.push_back({file.name, human_bytes(file.bytes), std::to_string(file.regions),
                    file.problems.empty() ? "sound" : "damaged"});
  log::print_result(table_text(rows));
  for (const checkpoint::FileCheck& file : report.files)
    for (const std::string& problem : file.problems) log::print_result(problem);
  for (const std::string& problem : report.problems) log::print_result(problem);
  const std::int64_t problems = report.problem_count();
  log::result("{}: {} ({} of tensors read and compared in {:.2f} s, {:.0f} MB/s)", report.path.string(),
              problems == 0 ? "sound" : fmt::format("damaged, {} problems", problems), human_bytes(report.bytes),
              report.seconds, megabytes_per_second(report));
}

void print_json(const checkpoint::VerifyReport& report) {
  Json json{{"path", report.path.string()}, {"sound", report.problem_count() == 0}, {"bytes", report.bytes},
            {"seconds", report.seconds},    {"problems", report.problems},          {"files", Json::array()}};
  for (const checkpoint::FileCheck& file : report.files)
    json["files"].push_back(
        {{"name", file.name}, {"bytes", file.bytes}, {"regions", file.regions}, {"problems", file.problems}});
  log::print_result(json.dump(2));
}

}  // namespace

ExitCode ckpt_verify(const std::vector<std::string>& arguments) {
  boost::program_options::options_description options;
  options.add_options()("json", "print JSON");
  boost::program_options::variables_map values;
  const CkptUsage usage{"verify", "PATH [--json]",
                        "Reads every byte of a checkpoint, compares it with its checksum, and checks that every "
                        "element\nof every tensor is there once. Exit code 4 where anything is wrong."};
  if (!parse_ckpt_options(usage, options, arguments, values)) return ExitCode::ok;
  const checkpoint::VerifyReport report = checkpoint::verify(checkpoint::resolve_checkpoint(path_of(values)));
  values.count("json") ? print_json(report) : print_text(report);
  return report.problem_count() == 0 ? ExitCode::ok : ExitCode::checkpoint;
}

}  // namespace shoal::apps

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

const char* file_heading(const checkpoint::VerifyReport& report) {
  return report.files.empty() || report.files.front().one_a_rank ? "rank" : "group";
}

// Of a file that several ranks wrote, the shard tells which: the rank in its shard group.
std::string problem_text(const checkpoint::FileCheck& file, const checkpoint::Problem& problem) {
  if (file.one_a_rank) return fmt::format("rank {}: {}", file.index, problem.text);
  if (!problem.region) return fmt::format("group {}: {}", file.index, problem.text);
  return fmt::format("group {}, shard {}: {}", file.index, problem.region->shard, problem.text);
}

void print_text(const checkpoint::VerifyReport& report) {
  std::vector<std::vector<std::string>> rows{{"file", file_heading(report), "size", "regions", "state"}};
  for (const checkpoint::FileCheck& file : report.files)
    rows.push_back({file.name, std::to_string(file.index), human_bytes(file.bytes), std::to_string(file.regions),
                    file.problems.empty() ? "sound" : "damaged"});
  log::print_result(table_text(rows));
  for (const checkpoint::FileCheck& file : report.files)
    for (const checkpoint::Problem& problem : file.problems) log::print_result(problem_text(file, problem));
  for (const std::string& problem : report.problems) log::print_result(problem);
  const std::int64_t problems = report.problem_count();
  log::result("{}: {} ({} of tensors read and compared in {:.2f} s, {:.0f} MB/s)", report.path.string(),
              problems == 0 ? "sound" : fmt::format("damaged, {} problems", problems), human_bytes(report.bytes),
              report.seconds, megabytes_per_second(report));
}

Json to_json(const checkpoint::Problem& problem) {
  Json json{{"text", problem.text}};
  if (!problem.region) return json;
  json["tensor"] = problem.region->tensor;
  json["first_element"] = problem.region->begin;
  json["elements"] = problem.region->count;
  json["shard"] = problem.region->shard;
  return json;
}

void print_json(const checkpoint::VerifyReport& report) {
  Json json{{"path", report.path.string()}, {"sound", report.problem_count() == 0}, {"bytes", report.bytes},
            {"seconds", report.seconds},    {"problems", report.problems},          {"files", Json::array()}};
  json["megabytes_per_second"] = megabytes_per_second(report);
  for (const checkpoint::FileCheck& file : report.files) {
    Json& item = json["files"].emplace_back(Json{{"name", file.name},
                                                 {file.one_a_rank ? "rank" : "group", file.index},
                                                 {"bytes", file.bytes},
                                                 {"regions", file.regions}});
    item["problems"] = Json::array();
    for (const checkpoint::Problem& problem : file.problems) item["problems"].push_back(to_json(problem));
  }
  log::print_result(json.dump(2));
}

}  // namespace

ExitCode ckpt_verify(const std::vector<std::string>& arguments) {
  boost::program_options::options_description options;
  add_workers_option(options);
  options.add_options()("json", "print JSON");
  boost::program_options::variables_map values;
  const CkptUsage usage{"verify", "PATH [--workers N] [--json]",
                        "Reads every byte of a checkpoint, compares it with its checksum, and checks that every "
                        "element\nof every tensor is there once. Exit code 4 where anything is wrong.",
                        "shoal ckpt verify checkpoints/mnist --workers 8"};
  if (!parse_ckpt_options(usage, options, arguments, values)) return ExitCode::ok;
  const checkpoint::VerifyReport report =
      checkpoint::verify(checkpoint::resolve_checkpoint(path_of(values)), workers_of(values));
  values.count("json") ? print_json(report) : print_text(report);
  return report.problem_count() == 0 ? ExitCode::ok : ExitCode::checkpoint;
}

}  // namespace shoal::apps

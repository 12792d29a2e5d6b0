#include <nlohmann/json.hpp>

#include "apps/ckpt_options.h"
#include "apps/ckpt_text.h"
#include "apps/ckpt_verbs.h"
#include "checkpoint/catalog.h"
#include "core/check.h"
#include "core/logging.h"

namespace shoal::apps {
namespace {

using Json = nlohmann::ordered_json;

struct ListedCheckpoint {
  checkpoint::CatalogEntry entry;
  checkpoint::Manifest manifest;  // empty where there is a problem
  std::string problem;
  std::int64_t file_bytes = 0;
};

ListedCheckpoint look_at(const checkpoint::CatalogEntry& entry) {
  ListedCheckpoint listed{entry, {}, {}, 0};
  try {
    listed.manifest = checkpoint::open_checkpoint(entry.path);
    listed.file_bytes = listed.manifest.file_bytes();
  } catch (const CheckpointError& error) {
    listed.problem = error.what();
  }
  return listed;
}

std::vector<ListedCheckpoint> look_at_all(const std::string& path) {
  std::vector<ListedCheckpoint> all;
  if (checkpoint::is_checkpoint(path)) return {look_at({path, checkpoint::read_manifest(path).step, 0})};
  static_cast<void>(checkpoint::resolve_checkpoint(path));  // throws where there is none at all
  for (const auto& entry : checkpoint::list_checkpoints(path)) all.push_back(look_at(entry));
  return all;
}

std::string name_of(const ListedCheckpoint& listed) { return listed.entry.path.lexically_normal().filename().string(); }

void print_table(const std::vector<ListedCheckpoint>& all) {
  std::vector<std::vector<std::string>> rows{{"checkpoint", "step", "ranks", "tensors", "size", "created", "state"}};
  for (const ListedCheckpoint& listed : all) {
    const checkpoint::Manifest& manifest = listed.manifest;
    const std::string step = std::to_string(listed.entry.step);
    if (listed.problem.empty())
      rows.push_back({name_of(listed), step, std::to_string(manifest.ranks), std::to_string(manifest.tensors.size()),
                      human_bytes(listed.file_bytes), manifest.created, "complete"});
    else
      rows.push_back({name_of(listed), step, "-", "-", "-", "-", "damaged: " + listed.problem});
  }
  log::print_result(table_text(rows));
}

void print_json(const std::vector<ListedCheckpoint>& all) {
  Json json = Json::array();
  for (const ListedCheckpoint& listed : all) {
    Json& item = json.emplace_back(Json{{"path", listed.entry.path.string()}, {"step", listed.entry.step}});
    item["complete"] = listed.problem.empty();
    if (!listed.problem.empty()) {
      item["problem"] = listed.problem;
      continue;
    }
    item["sequence"] = listed.manifest.sequence;
    item["ranks"] = listed.manifest.ranks;
    item["tensors"] = listed.manifest.tensors.size();
    item["file_bytes"] = listed.file_bytes;
    item["created"] = listed.manifest.created;
  }
  log::print_result(json.dump(2));
}

}  // namespace

ExitCode ckpt_list(const std::vector<std::string>& arguments) {
  boost::program_options::options_description options;
  options.add_options()("json", "print JSON");
  boost::program_options::variables_map values;
  const CkptUsage usage{"list", "PATH [--json]",
                        "Lists the checkpoints of a directory, newest first. Looks at sizes, not at every byte: that "
                        "is\nshoal ckpt verify.",
                        "shoal ckpt list checkpoints/mnist --json"};
  if (!parse_ckpt_options(usage, options, arguments, values)) return ExitCode::ok;
  const std::vector<ListedCheckpoint> all = look_at_all(path_of(values));
  values.count("json") ? print_json(all) : print_table(all);
  return ExitCode::ok;
}

}  // namespace shoal::apps

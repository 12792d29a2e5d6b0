#include "apps/train_dry_run.h"

#include <sstream>

#include "core/logging.h"
#include "fsdp/mesh_check.h"
#include "train/config_text.h"

namespace shoal::apps {

void print_comment(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) log::print_result(line.empty() ? "#" : "# " + line);
}

void show_dry_run(const train::TrainOptions& options, comm::DeviceMesh& mesh, const fsdp::FullyShardedModule& sharded) {
  print_comment("the options, as shoal train --config takes them:");
  std::string config = train::config_text(options);
  config.pop_back();  // print_result() ends the line
  log::print_result(config);
  print_comment("groups of ranks:\n  " + fsdp::topology(mesh));
  for (const std::string& line : mesh.describe()) print_comment("  " + line);
  print_comment("the model and its units:");
  print_comment(sharded.print());
}

}  // namespace shoal::apps

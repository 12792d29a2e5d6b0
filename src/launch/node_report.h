// What the ranks of a node were doing, in a file of the run directory: written every half minute, and when the watch
// has struck.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "launch/whereabouts.h"

namespace shoal::launch {

struct NodeReport {
  double time = 0;      // when it was written, in seconds since 1970
  bool struck = false;  // after the watch has struck
  std::vector<Whereabouts> ranks;
};

std::string to_json(const NodeReport& report);
NodeReport parse_node_report(const std::string& text);  // IoError for what to_json() did not write

// The file, in the folder `where`, of the node the lowest rank of which is `node`.
std::filesystem::path node_report_file(const std::filesystem::path& where, int node, int attempt);

// One line about what the ranks of an attempt were last seen doing; nothing where there are no reports of it.
std::optional<std::string> last_seen(const std::filesystem::path& where, int attempt);

// Removes the reports and strikes of attempts before that one, as far as the system allows.
void forget_reports_before(const std::filesystem::path& where, int attempt) noexcept;

}  // namespace shoal::launch

// Numbers and tables as people read them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace shoal::apps {

std::string human_bytes(std::int64_t bytes);                     // "1.50 GiB"
std::string shape_text(const std::vector<std::int64_t>& shape);  // "64 x 32 x 3 x 3", "scalar"

// Columns as wide as their widest cell, two spaces apart. The first row is the heading.
std::string table_text(const std::vector<std::vector<std::string>>& rows);

}  // namespace shoal::apps

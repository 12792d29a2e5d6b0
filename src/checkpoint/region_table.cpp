#include "checkpoint/region_table.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/check.h"
#include "core/crc32c.h"

namespace shoal::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little, "rows and elements go to the file as they lie in memory");

struct PlacedRow {
  RegionRow row;
  std::size_t file;
};

std::vector<PlacedRow> sorted_rows(const std::vector<RegionTable>& tables) {
  std::vector<PlacedRow> rows;
  for (std::size_t file = 0; file < tables.size(); ++file)
    for (const RegionRow& row : tables[file]) rows.push_back({row, file});
  std::sort(rows.begin(), rows.end(), [](const PlacedRow& a, const PlacedRow& b) {
    return std::pair(a.row.tensor, a.row.begin) < std::pair(b.row.tensor, b.row.begin);
  });
  return rows;
}

[[noreturn]] void fail_hole(const std::string& where, const TensorSpec& tensor, std::uint64_t from, std::uint64_t to) {
  throw CheckpointError("{}: elements {} to {} of tensor '{}' are in none of its files", where, from, to - 1,
                        tensor.name);
}

}  // namespace

std::uint32_t table_crc(const RegionTable& table) { return crc32c(table.data(), table.size() * sizeof(RegionRow)); }

std::string table_bytes(const RegionTable& table) {
  return {reinterpret_cast<const char*>(table.data()), table.size() * sizeof(RegionRow)};
}

RegionTable table_from_bytes(const std::string& bytes) {
  SHOAL_ASSERT(bytes.size() % sizeof(RegionRow) == 0);
  RegionTable table(bytes.size() / sizeof(RegionRow));
  if (!table.empty()) std::memcpy(table.data(), bytes.data(), bytes.size());
  return table;
}

void check_rows(const RegionTable& table, const Manifest& manifest, const std::string& where) {
  std::uint64_t previous = 0;
  for (const RegionRow& row : table) {
    SHOAL_CHECK(row.tensor >= previous, CheckpointError, "{}: the regions are not in the order of the tensors", where);
    previous = row.tensor;
    SHOAL_CHECK(row.tensor < manifest.tensors.size(), CheckpointError, "{}: a region of tensor {} of {}", where,
                row.tensor, manifest.tensors.size());
    const TensorSpec& tensor = manifest.tensors[row.tensor].spec;
    const auto numel = static_cast<std::uint64_t>(tensor.numel());
    SHOAL_CHECK(row.count > 0 && row.begin < numel && row.count <= numel - row.begin, CheckpointError,
                "{}: {} elements from {} on of tensor '{}', which has {}", where, row.count, row.begin, tensor.name,
                numel);
  }
}

void check_coverage(const std::vector<RegionTable>& tables, const Manifest& manifest, const std::string& where) {
  const std::vector<PlacedRow> rows = sorted_rows(tables);
  auto next = rows.begin();
  for (std::size_t index = 0; index < manifest.tensors.size(); ++index) {
    const TensorSpec& tensor = manifest.tensors[index].spec;
    std::uint64_t end = 0;
    for (; next != rows.end() && next->row.tensor == index; ++next) {
      if (next->row.begin > end) fail_hole(where, tensor, end, next->row.begin);
      SHOAL_CHECK(next->row.begin == end, CheckpointError, "{}: element {} of tensor '{}' is in {} and elsewhere too",
                  where, next->row.begin, tensor.name, manifest.files.at(next->file).name);
      end += next->row.count;
    }
    const auto numel = static_cast<std::uint64_t>(tensor.numel());
    if (end < numel) fail_hole(where, tensor, end, numel);
  }
}

std::string describe(const RegionRow& row, const Manifest& manifest) {
  return fmt::format("tensor '{}', elements {} to {}", manifest.tensors.at(row.tensor).spec.name, row.begin,
                     row.begin + row.count - 1);
}

}  // namespace shoal::checkpoint

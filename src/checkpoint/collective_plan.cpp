#include "checkpoint/collective_plan.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "checkpoint/agreement.h"
#include "checkpoint/export.h"
#include "checkpoint/file_names.h"
#include "core/check.h"

namespace shoal::checkpoint {
namespace {

// Collective over `world`: rank 0's on all ranks.
template <typename T>
void share(comm::ProcessGroup& world, std::vector<T>& values) {
  static_assert(std::is_trivially_copyable_v<T>);
  const std::string bytes =
      comm::broadcast_bytes(world, {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)});
  values.resize(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
}

int owner_of(const ExportPiece& piece, const ExportSource& source, bool only_piece, int ranks) {
  const PlacedRegion& region = source.regions[piece.region];
  if (only_piece) return static_cast<int>(region.file * static_cast<std::size_t>(ranks) / source.manifest.files.size());
  const std::int64_t all = bytes_of(source.plan.tensors[piece.tensor]);
  const double middle = static_cast<double>(piece.output_offset) + static_cast<double>(piece.output_bytes) / 2;
  return std::min(ranks - 1, static_cast<int>(middle / static_cast<double>(all) * ranks));
}

}  // namespace

ExportSource share_source(comm::ProcessGroup& world, const ExportOptions& options) {
  ExportSource source;
  const std::string manifest = run_on_root(world, "rank 0 plans the file", [&] {
    source = Export(options).source();
    return read_text_file(options.checkpoint / kManifestName);
  });
  share(world, source.regions);
  share(world, source.layout.places);
  share(world, source.pieces);
  std::vector<std::int64_t> sizes;
  for (const ExportFile& file : source.layout.files) sizes.push_back(file.bytes);
  share(world, sizes);
  if (world.rank() == 0) return source;
  source.checkpoint = options.checkpoint;
  source.manifest = parse_manifest(manifest, (options.checkpoint / kManifestName).string());
  source.plan = plan_export(source.manifest, options.selection);
  source.layout.files = {{options.output, sizes.at(0)}};
  return source;
}

std::vector<CollectiveWrite> plan_writes(const ExportSource& source, int ranks) {
  std::vector<std::vector<std::size_t>> of_tensor(source.plan.tensors.size());
  for (std::size_t i = 0; i < source.pieces.size(); ++i) of_tensor[source.pieces[i].tensor].push_back(i);
  std::vector<CollectiveWrite> writes;
  for (std::size_t tensor = 0; tensor < of_tensor.size(); ++tensor) {
    const std::size_t begin = writes.size();
    std::vector<std::size_t> taken(static_cast<std::size_t>(ranks), 0);
    for (const std::size_t piece : of_tensor[tensor]) {
      const auto owner =
          static_cast<std::size_t>(owner_of(source.pieces[piece], source, of_tensor[tensor].size() == 1, ranks));
      const std::size_t write = begin + taken[owner]++;
      if (write == writes.size()) writes.push_back({tensor, {}});
      writes[write].pieces.resize(static_cast<std::size_t>(ranks));
      writes[write].pieces[owner] = piece;
    }
  }
  return writes;
}

}  // namespace shoal::checkpoint

#include "checkpoint/dcp_chunks.h"

#include <algorithm>

#include "checkpoint/row_major_boxes.h"
#include "checkpoint/saved_optimizer.h"
#include "checkpoint/stored_elements.h"
#include "core/check.h"
#include "shard/shard_layout.h"

namespace shoal::checkpoint {

using formats::DcpChunk;
using formats::DcpEntry;
using formats::DcpPlace;
using formats::PickleNode;
using formats::TorchArchive;

namespace {

std::int64_t product(const std::vector<std::int64_t>& extents, std::size_t from) {
  std::int64_t numel = 1;
  for (std::size_t i = from; i < extents.size(); ++i) numel *= extents[i];
  return numel;
}

// Whether the chunk is one piece of the flattened tensor: whole but for its first dimension.
bool is_piece(const DcpChunk& chunk, const std::vector<std::int64_t>& shape) {
  for (std::size_t i = 1; i < shape.size(); ++i)
    if (chunk.sizes[i] != shape[i]) return false;
  return true;
}

}  // namespace

std::unique_ptr<TorchArchive> DcpChunks::archive(const DcpPlace& place) {
  const std::shared_ptr<InputFile> file = files_.open(place.file);
  const auto size = static_cast<std::uint64_t>(file->size());
  const std::string path = files_.path(place.file).string();
  SHOAL_CHECK(place.offset <= size && place.bytes <= size - place.offset, CheckpointError,
              "{} has {} bytes, but the metadata place something at its bytes {} to {}: it is truncated or damaged",
              path, size, place.offset, place.offset + std::min(place.bytes, UINT64_MAX - place.offset));
  return std::make_unique<TorchArchive>(
      formats::ByteSource{fmt::format("{} from byte {} on", path, place.offset), place.bytes,
                          [file, place](std::uint64_t offset, void* into, std::size_t bytes) {
                            file->read_at(static_cast<std::int64_t>(place.offset + offset), into, bytes);
                          }},
      is_training_global);
}

const DcpChunks::OpenChunk& DcpChunks::open(const DcpEntry& tensor, const DcpChunk& chunk) {
  if (open_.chunk == &chunk) return open_;
  const std::unique_ptr<TorchArchive> saved = archive(chunk.place);
  const PickleNode* call = saved->as_tensor(saved->root());
  SHOAL_CHECK(call != nullptr, CheckpointError, "{}: it is no tensor, where a chunk of '{}' should be", saved->path(),
              tensor.key);
  std::string reason;
  std::optional<formats::StoredTensor> stored = saved->place(*call, tensor.key, reason);
  SHOAL_CHECK(stored && stored->spec.dtype == tensor.known && stored->spec.shape == chunk.sizes, CheckpointError,
              "{}: the chunk of '{}' has another size or type than the metadata say: it is damaged", saved->path(),
              tensor.key);
  stored->offset += chunk.place.offset;
  open_ = {&chunk, files_.open(chunk.place.file), std::move(*stored)};
  return open_;
}

void DcpChunks::read(const DcpEntry& tensor, std::int64_t begin, std::int64_t count, std::byte* into) {
  const std::int64_t element = size_of(*tensor.known);
  for (const DcpChunk& chunk : tensor.chunks) {
    if (!is_piece(chunk, tensor.shape)) {
      read_box(tensor, chunk, begin, count, into);
      continue;
    }
    const std::int64_t first = tensor.shape.empty() ? 0 : chunk.offsets[0] * product(tensor.shape, 1);
    const Range both = intersect({begin, count}, {first, product(chunk.sizes, 0)});
    if (both.count == 0) continue;
    const OpenChunk& source = open(tensor, chunk);
    read_stored(*source.file, source.tensor, both.begin - first, both.count, into + (both.begin - begin) * element);
  }
}

// Row by row: what a chunk and the range have in common is a box, of which each row is one piece of both.
void DcpChunks::read_box(const DcpEntry& tensor, const DcpChunk& chunk, std::int64_t begin, std::int64_t count,
                         std::byte* into) {
  const std::size_t last = tensor.shape.size() - 1;
  const std::int64_t element = size_of(*tensor.known);
  for (const Box& box : row_major_boxes(tensor.shape, begin, count)) {
    std::vector<Range> common;
    for (std::size_t i = 0; i <= last; ++i)
      common.push_back(intersect({box.start[i], box.count[i]}, {chunk.offsets[i], chunk.sizes[i]}));
    if (std::any_of(common.begin(), common.end(), [](const Range& range) { return range.count == 0; })) continue;
    std::vector<std::int64_t> at;
    for (const Range& range : common) at.push_back(range.begin);
    for (bool more = true; more;) {
      std::int64_t in_tensor = 0, in_chunk = 0;
      for (std::size_t i = 0; i <= last; ++i) {
        in_tensor = in_tensor * tensor.shape[i] + at[i];
        in_chunk = in_chunk * chunk.sizes[i] + at[i] - chunk.offsets[i];
      }
      const OpenChunk& source = open(tensor, chunk);
      read_stored(*source.file, source.tensor, in_chunk, common[last].count, into + (in_tensor - begin) * element);
      more = false;
      for (std::size_t i = last; i-- > 0 && !more;) {
        more = ++at[i] < common[i].end();
        if (!more) at[i] = common[i].begin;
      }
    }
  }
}

std::optional<double> DcpChunks::number(const DcpEntry& entry) {
  if (entry.tensor && entry.chunks.size() != 1) return std::nullopt;
  const std::unique_ptr<TorchArchive> saved = archive(entry.tensor ? entry.chunks.front().place : entry.place);
  return saved->number(saved->root());
}

}  // namespace shoal::checkpoint

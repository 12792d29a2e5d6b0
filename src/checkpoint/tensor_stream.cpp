#include "checkpoint/tensor_stream.h"

#include <algorithm>

#include "checkpoint/catalog.h"
#include "checkpoint/shard_reader.h"
#include "core/check.h"
#include "core/crc32c.h"

namespace shoal::checkpoint {
namespace {

constexpr std::size_t kMostOpenFiles = 64;

}  // namespace

TensorStream::TensorStream(const std::filesystem::path& checkpoint)
    : path_(checkpoint), manifest_(open_checkpoint(checkpoint)), pieces_(manifest_.tensors.size()) {
  for (std::size_t file = 0; file < manifest_.files.size(); ++file) add_file(file);
  for (std::size_t tensor = 0; tensor < pieces_.size(); ++tensor) {
    std::vector<Piece>& pieces = pieces_[tensor];
    std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
    const TensorSpec& spec = manifest_.tensors[tensor].spec;
    std::int64_t end = 0;
    for (const Piece& piece : pieces) end = piece.begin == end ? end + piece.bytes : -1;
    SHOAL_CHECK(end == spec.numel() * size_of(spec.dtype), CheckpointError,
                "{}: the files hold some elements of tensor '{}' twice or not at all", checkpoint.string(), spec.name);
  }
}

void TensorStream::add_file(std::size_t file) {
  const ShardReader reader(path_, manifest_, file);
  for (std::size_t region = 0; region < reader.regions().size(); ++region) {
    const RegionRow& row = reader.regions()[region];
    const std::int64_t element = size_of(manifest_.tensors[row.tensor].spec.dtype);
    pieces_[row.tensor].push_back({file, reader.locate(region), static_cast<std::int64_t>(row.begin) * element,
                                   static_cast<std::int64_t>(row.count) * element,
                                   static_cast<std::uint32_t>(row.crc)});
  }
}

const InputFile& TensorStream::open(std::size_t file) {
  const auto found = open_.find(file);
  if (found != open_.end()) return found->second;
  if (open_.size() >= kMostOpenFiles) open_.clear();
  return open_.emplace(file, InputFile(path_ / manifest_.files[file].name)).first->second;
}

void TensorStream::begin(std::size_t tensor) {
  tensor_ = tensor;
  piece_ = 0;
  done_ = 0;
  crc_ = 0;
}

void TensorStream::read(std::byte* into, std::size_t bytes) {
  while (bytes > 0) {
    const Piece& piece = pieces_.at(tensor_).at(piece_);
    const auto part = std::min(bytes, static_cast<std::size_t>(piece.bytes - done_));
    open(piece.file).read_at(piece.file_offset + done_, into, part);
    crc_ = crc32c(into, part, crc_);
    into += part;
    bytes -= part;
    done_ += static_cast<std::int64_t>(part);
    if (done_ < piece.bytes) continue;
    check_crc(piece);
    ++piece_;
    done_ = 0;
    crc_ = 0;
  }
}

void TensorStream::check_crc(const Piece& piece) const {
  const TensorSpec& spec = manifest_.tensors[tensor_].spec;
  const std::int64_t element = size_of(spec.dtype);
  SHOAL_CHECK(crc_ == piece.crc, CheckpointError,
              "{}: tensor '{}', elements {} to {}: the bytes do not match their checksum: it is damaged",
              (path_ / manifest_.files[piece.file].name).string(), spec.name, piece.begin / element,
              (piece.begin + piece.bytes) / element - 1);
}

}  // namespace shoal::checkpoint

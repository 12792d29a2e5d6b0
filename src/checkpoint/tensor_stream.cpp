#include "checkpoint/tensor_stream.h"

#include <algorithm>

#include "checkpoint/catalog.h"
#include "core/crc32c.h"

namespace shoal::checkpoint {
namespace {

constexpr std::size_t kMostOpenFiles = 64;

}  // namespace

TensorStream::TensorStream(const std::filesystem::path& checkpoint)
    : path_(checkpoint), manifest_(open_checkpoint(checkpoint)), pieces_(manifest_.tensors.size()) {
  for (const PlacedRegion& region : place_regions(path_, manifest_)) pieces_[region.tensor].push_back(region);
  for (std::vector<PlacedRegion>& pieces : pieces_)
    std::sort(pieces.begin(), pieces.end(),
              [](const PlacedRegion& a, const PlacedRegion& b) { return a.begin < b.begin; });
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
    const PlacedRegion& piece = pieces_.at(tensor_).at(piece_);
    const auto part = std::min(bytes, static_cast<std::size_t>(piece.bytes - done_));
    open(piece.file).read_at(piece.file_offset + done_, into, part);
    crc_ = crc32c(into, part, crc_);
    into += part;
    bytes -= part;
    done_ += static_cast<std::int64_t>(part);
    if (done_ < piece.bytes) continue;
    check_crc(piece, crc_, path_, manifest_);
    ++piece_;
    done_ = 0;
    crc_ = 0;
  }
}

}  // namespace shoal::checkpoint

#include "checkpoint/export_pieces.h"

#include <algorithm>
#include <optional>

#include "checkpoint/convert_elements.h"
#include "checkpoint/in_workers.h"
#include "checkpoint/shard_reader.h"
#include "core/activity.h"
#include "core/all_zero.h"
#include "core/check.h"
#include "core/crc32c.h"
#include "core/direct_file.h"
#include "formats/zip_layout.h"

namespace shoal::checkpoint {

std::vector<ExportPiece> cut_pieces(const Manifest& manifest, std::vector<PlacedRegion>& regions,
                                    const ExportPlan& plan, const ExportLayout& layout, std::int64_t most_bytes) {
  std::vector<std::vector<std::size_t>> planned(manifest.tensors.size());
  for (std::size_t i = 0; i < plan.tensors.size(); ++i) planned[plan.tensors[i].source].push_back(i);
  std::vector<ExportPiece> pieces;
  for (std::size_t r = 0, all = regions.size(); r < all; ++r) {
    const PlacedRegion region = regions[r];
    for (const std::size_t tensor : planned[region.tensor]) {
      const bool is_first = tensor == planned[region.tensor].front();
      if (!is_first) regions.push_back(region);
      const std::size_t index = is_first ? r : regions.size() - 1;
      const std::int64_t from = size_of(manifest.tensors[region.tensor].spec.dtype);
      const std::int64_t to = size_of(plan.tensors[tensor].spec.dtype);
      for (std::int64_t begin = 0; begin < region.bytes; begin += most_bytes) {
        const std::int64_t bytes = std::min(most_bytes, region.bytes - begin);
        const std::int64_t offset = (region.begin + begin) / from * to;
        const ExportPlace place{layout.places[tensor].file, layout.places[tensor].offset + offset};
        pieces.push_back({index, tensor, begin, bytes, place, offset, bytes / from * to});
      }
    }
  }
  return pieces;
}

// Of one worker. The file that was read last stays open: pieces come file by file.
struct ExportCopy::Buffers {
  AlignedBuffer read, output;
  std::optional<std::size_t> file;
  std::optional<DirectInput> input;

  void open(std::size_t index, const std::filesystem::path& path, bool direct) {
    if (file != index) input.emplace(path, direct);
    file = index;
  }
};

ExportCopy::ExportCopy(const ExportSource& source, ExportParts& parts, std::int64_t sync_bytes, bool direct)
    : source_(&source),
      outputs_(&parts.outputs()),
      journal_(&parts.journal()),
      sync_bytes_(sync_bytes),
      direct_(direct),
      is_done_(source.pieces.size(), false),
      done_(source.pieces.size()),
      region_crcs_(source.regions.size(), 0) {
  for (const PlacedRegion& region : source.regions) region_left_.push_back(region.bytes);
  add(parts.finished());
  std::vector<std::size_t> left;
  for (std::size_t i = 0; i < is_done_.size(); ++i)
    if (!is_done_[i]) left.push_back(i);
  const ExportMember& member = parts.team().member();
  const auto index = static_cast<std::size_t>(member.index), count = static_cast<std::size_t>(member.count);
  const auto share = [&](std::size_t i) { return left.begin() + static_cast<std::ptrdiff_t>(left.size() * i / count); };
  left_.assign(share(index), share(index + 1));
}

void ExportCopy::add(const std::vector<FinishedPiece>& finished) {
  for (const FinishedPiece& piece : finished)
    if (piece.piece < is_done_.size() && !is_done_[piece.piece]) note(piece);
}

// Into the region's checksum, which is that of its parts, and to be compared once it is whole.
void ExportCopy::note(const FinishedPiece& finished) {
  const ExportPiece& piece = source_->pieces[finished.piece];
  const PlacedRegion& region = source_->regions[piece.region];
  const auto after = static_cast<std::uint64_t>(region.bytes - piece.begin - piece.bytes);
  done_[finished.piece] = finished;
  is_done_[finished.piece] = true;
  region_crcs_[piece.region] ^= crc32c_share(finished.source_crc, after);
  region_left_[piece.region] -= piece.bytes;
  copied_ += piece.bytes;
  if (region_left_[piece.region] == 0)
    check_crc(region, region_crcs_[piece.region], source_->checkpoint, source_->manifest);
}

// Of the source, so that what is written ends with a block of the output: at most kChunkBytes.
std::int64_t ExportCopy::next_chunk(std::int64_t place, std::int64_t left, DType from, DType to) {
  const std::int64_t before = place % static_cast<std::int64_t>(direct_block());
  return std::min(left, (kChunkBytes / size_of(from) * size_of(to) - before) / size_of(to) * size_of(from));
}

// Checked, converted, and in memory where it can go past the page cache to `place`.
const std::byte* ExportCopy::prepare(const std::byte* read, std::int64_t bytes, const Types& types, std::int64_t place,
                                     Buffers& buffers, FinishedPiece& finished) const {
  const auto& [from, to] = types;
  const auto block = static_cast<std::int64_t>(direct_block());
  const bool as_it_is = from == to && reinterpret_cast<std::intptr_t>(read) % block == place % block;
  std::byte* const output =
      as_it_is ? nullptr
               : buffers.output.at_least(static_cast<std::size_t>(bytes / size_of(from) * size_of(to) + block)) +
                     place % block;
  for (std::int64_t done = 0; done < bytes; done += kCacheBytes) {
    const std::int64_t part = std::min(kCacheBytes, bytes - done), elements = part / size_of(from);
    const std::int64_t output_part = elements * size_of(to);
    finished.source_crc = crc32c(read + done, static_cast<std::size_t>(part), finished.source_crc);
    const std::byte* result = read + done;
    if (!as_it_is) {
      std::byte* const into = output + done / size_of(from) * size_of(to);
      convert_elements(result, from, into, to, elements);
      result = into;
    }
    const auto result_bytes = static_cast<std::size_t>(output_part);
    finished.output_crc = from == to ? finished.source_crc : crc32c(result, result_bytes, finished.output_crc);
    if (source_->layout.wants_zip_crc) finished.zip_crc = formats::zip_crc(result, result_bytes, finished.zip_crc);
  }
  return as_it_is ? read : output;
}

FinishedPiece ExportCopy::copy(std::size_t index, Buffers& buffers) {
  const ExportPiece& piece = source_->pieces[index];
  const PlacedRegion& region = source_->regions[piece.region];
  const Types types{source_->manifest.tensors[region.tensor].spec.dtype,
                    source_->plan.tensors[piece.tensor].spec.dtype};
  as_damage(
      [&] { buffers.open(region.file, source_->checkpoint / source_->manifest.files[region.file].name, direct_); });
  DirectOutput& output = (*outputs_)[piece.place.file];
  FinishedPiece finished{index};
  std::int64_t place = piece.place.offset;
  for (std::int64_t done = 0; done < piece.bytes;) {
    const std::int64_t bytes = next_chunk(place, piece.bytes - done, types.from, types.to);
    const std::byte* const read = as_damage([&] {
      return buffers.input->read_at(region.file_offset + piece.begin + done, static_cast<std::size_t>(bytes),
                                    buffers.read);
    });
    const std::byte* const result = prepare(read, bytes, types, place, buffers, finished);
    const std::int64_t output_bytes = bytes / size_of(types.from) * size_of(types.to);
    // The part has a hole there, and keeps it.
    if (!all_zero(result, static_cast<std::size_t>(output_bytes)))
      output.write_at(place, result, static_cast<std::size_t>(output_bytes));
    done += bytes;
    place += output_bytes;
    activity::progressed();
  }
  return finished;
}

void ExportCopy::run(int workers, const std::function<void()>& tick) {
  std::vector<Buffers> buffers(static_cast<std::size_t>(workers));
  in_workers(
      workers, left_.size(),
      [&](std::size_t index, int worker) {
        const FinishedPiece finished = copy(left_[index], buffers[static_cast<std::size_t>(worker)]);
        bool enough = false;
        {
          const std::lock_guard lock(mutex_);
          note(finished);
          uncommitted_.push_back(finished);
          uncommitted_bytes_ += source_->pieces[finished.piece].output_bytes;
          enough = uncommitted_bytes_ >= sync_bytes_;
        }
        if (enough) commit();
      },
      tick);
  commit();
}

// While one thread waits for the disk, the others go on.
void ExportCopy::commit() {
  const std::lock_guard journal_lock(journal_mutex_);
  std::vector<FinishedPiece> finished;
  {
    const std::lock_guard lock(mutex_);
    finished.swap(uncommitted_);
    uncommitted_bytes_ = 0;
  }
  if (finished.empty()) return;
  std::vector<bool> touched(outputs_->size(), false);
  for (const FinishedPiece& piece : finished) touched[source_->pieces[piece.piece].place.file] = true;
  for (std::size_t file = 0; file < touched.size(); ++file)
    if (touched[file]) (*outputs_)[file].sync();
  journal_->add(std::move(finished));
}

void ExportCopy::check(std::size_t index, Buffers& buffers) const {
  const ExportPiece& piece = source_->pieces[index];
  const std::filesystem::path part = part_path(source_->layout.files[piece.place.file].path);
  buffers.open(piece.place.file, part, direct_);
  std::uint32_t crc = 0;
  for (std::int64_t done = 0; done < piece.output_bytes;) {
    const std::int64_t bytes =
        next_chunk(piece.place.offset + done, piece.output_bytes - done, DType::uint8, DType::uint8);
    const auto size = static_cast<std::size_t>(bytes);
    crc = crc32c(buffers.input->read_at(piece.place.offset + done, size, buffers.read), size, crc);
    done += bytes;
    activity::progressed();
  }
  SHOAL_CHECK(crc == done_[index].output_crc, IoError,
              "{}: tensor '{}' does not read back as it was written, at byte {}: the disk is not to be trusted",
              part.string(), source_->plan.tensors[piece.tensor].spec.name, piece.place.offset);
}

void ExportCopy::read_back(int workers, const std::function<void()>& tick) const {
  std::vector<Buffers> buffers(static_cast<std::size_t>(workers));
  in_workers(
      workers, source_->pieces.size(),
      [&](std::size_t index, int worker) {
        check(index, buffers[static_cast<std::size_t>(worker)]);
        checked_ += source_->pieces[index].output_bytes;
      },
      tick);
}

std::vector<WrittenPart> ExportCopy::parts() const {
  SHOAL_ASSERT(std::find(is_done_.begin(), is_done_.end(), false) == is_done_.end());
  std::vector<WrittenPart> parts;
  for (std::size_t i = 0; i < done_.size(); ++i) {
    const ExportPiece& piece = source_->pieces[i];
    parts.push_back({piece.tensor, piece.output_offset, piece.output_bytes, done_[i].zip_crc});
  }
  return parts;
}

}  // namespace shoal::checkpoint

#include "checkpoint/export_pieces.h"

#include <algorithm>
#include <optional>

#include "checkpoint/convert_elements.h"
#include "checkpoint/export_parts.h"
#include "checkpoint/in_workers.h"
#include "checkpoint/shard_reader.h"
#include "core/activity.h"
#include "core/check.h"
#include "core/crc32c.h"
#include "formats/zip_layout.h"

namespace shoal::checkpoint {

std::vector<ExportPiece> cut_pieces(const Manifest& manifest, const std::vector<PlacedRegion>& regions,
                                    const ExportPlan& plan, const ExportLayout& layout, std::int64_t most_bytes) {
  constexpr std::size_t kNotWanted = static_cast<std::size_t>(-1);
  std::vector<std::size_t> planned(manifest.tensors.size(), kNotWanted);
  for (std::size_t i = 0; i < plan.tensors.size(); ++i) planned[plan.tensors[i].source] = i;
  std::vector<ExportPiece> pieces;
  for (std::size_t r = 0; r < regions.size(); ++r) {
    const PlacedRegion& region = regions[r];
    const std::size_t tensor = planned[region.tensor];
    if (tensor == kNotWanted) continue;
    const std::int64_t from = size_of(manifest.tensors[region.tensor].spec.dtype);
    const std::int64_t to = size_of(plan.tensors[tensor].spec.dtype);
    for (std::int64_t begin = 0; begin < region.bytes; begin += most_bytes) {
      const std::int64_t bytes = std::min(most_bytes, region.bytes - begin);
      const std::int64_t offset = (region.begin + begin) / from * to;
      const ExportPlace place{layout.places[tensor].file, layout.places[tensor].offset + offset};
      pieces.push_back({r, tensor, begin, bytes, place, offset, bytes / from * to});
    }
  }
  return pieces;
}

// Of one worker. The file that was read last stays open: pieces come file by file.
struct ExportCopy::Buffers {
  std::vector<std::byte> read = std::vector<std::byte>(static_cast<std::size_t>(kChunkBytes)), converted;
  std::size_t file = 0;
  std::optional<InputFile> input;
};

ExportCopy::ExportCopy(const ExportSource& source, std::vector<OutputFile>& outputs, ExportJournal& journal,
                       const std::vector<FinishedPiece>& finished, std::int64_t sync_bytes, const ExportMember& member)
    : source_(&source),
      outputs_(&outputs),
      journal_(&journal),
      sync_bytes_(sync_bytes),
      is_done_(source.pieces.size(), false),
      done_(source.pieces.size()),
      region_crcs_(source.regions.size(), 0) {
  for (const PlacedRegion& region : source.regions) region_left_.push_back(region.bytes);
  add(finished);
  std::vector<std::size_t> left;
  for (std::size_t i = 0; i < is_done_.size(); ++i)
    if (!is_done_[i]) left.push_back(i);
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

FinishedPiece ExportCopy::copy(std::size_t index, Buffers& buffers) {
  const ExportPiece& piece = source_->pieces[index];
  const PlacedRegion& region = source_->regions[piece.region];
  const DType from = source_->manifest.tensors[region.tensor].spec.dtype,
              to = source_->plan.tensors[piece.tensor].spec.dtype;
  if (!buffers.input || buffers.file != region.file)
    as_damage([&] { buffers.input.emplace(source_->checkpoint / source_->manifest.files[region.file].name); });
  buffers.file = region.file;
  FinishedPiece finished{index};
  std::int64_t written = 0;
  for (std::int64_t done = 0; done < piece.bytes; done += kChunkBytes) {
    const auto bytes = static_cast<std::size_t>(std::min(kChunkBytes, piece.bytes - done));
    as_damage([&] { buffers.input->read_at(region.file_offset + piece.begin + done, buffers.read.data(), bytes); });
    finished.source_crc = crc32c(buffers.read.data(), bytes, finished.source_crc);
    const std::byte* output = buffers.read.data();
    const std::int64_t elements = static_cast<std::int64_t>(bytes) / size_of(from);
    if (from != to) {
      buffers.converted.resize(static_cast<std::size_t>(elements * size_of(to)));
      convert_elements(buffers.read.data(), from, buffers.converted.data(), to, elements);
      output = buffers.converted.data();
    }
    const auto output_bytes = static_cast<std::size_t>(elements * size_of(to));
    finished.output_crc = from == to ? finished.source_crc : crc32c(output, output_bytes, finished.output_crc);
    if (source_->layout.wants_zip_crc) finished.zip_crc = formats::zip_crc(output, output_bytes, finished.zip_crc);
    (*outputs_)[piece.place.file].write_at(piece.place.offset + written, output, output_bytes);
    written += static_cast<std::int64_t>(output_bytes);
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

void ExportCopy::read_back(int workers, const std::function<void()>& tick) const {
  std::vector<Buffers> buffers(static_cast<std::size_t>(workers));
  in_workers(
      workers, source_->pieces.size(),
      [&](std::size_t index, int worker) {
        const ExportPiece& piece = source_->pieces[index];
        const std::filesystem::path part = part_path(source_->layout.files[piece.place.file].path);
        Buffers& own = buffers[static_cast<std::size_t>(worker)];
        if (!own.input || own.file != piece.place.file) own.input.emplace(part);
        own.file = piece.place.file;
        std::uint32_t crc = 0;
        for (std::int64_t done = 0; done < piece.output_bytes; done += kChunkBytes) {
          const auto bytes = static_cast<std::size_t>(std::min(kChunkBytes, piece.output_bytes - done));
          own.input->read_at(piece.place.offset + done, own.read.data(), bytes);
          crc = crc32c(own.read.data(), bytes, crc);
          activity::progressed();
        }
        checked_ += piece.output_bytes;
        SHOAL_CHECK(crc == done_[index].output_crc, IoError,
                    "{}: tensor '{}' does not read back as it was written, at byte {}: the disk is not to be trusted",
                    part.string(), source_->plan.tensors[piece.tensor].spec.name, piece.place.offset);
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

#include "checkpoint/collective_export.h"

#include <chrono>
#include <cstring>
#include <exception>
#include <optional>
#include <thread>

#include "checkpoint/agreement.h"
#include "checkpoint/collective_part.h"
#include "checkpoint/collective_plan.h"
#include "checkpoint/convert_elements.h"
#include "checkpoint/open_files.h"
#include "checkpoint/output_lock.h"
#include "checkpoint/row_major_boxes.h"
#include "checkpoint/shard_reader.h"
#include "core/activity.h"
#include "core/check.h"
#include "core/crc32c.h"
#include "core/direct_file.h"
#include "core/logging.h"
#include "core/timer.h"
#include "hdf5/mpio.h"

namespace shoal::checkpoint {
namespace fs = std::filesystem;
namespace {

std::vector<hdf5::Hyperslab> slabs_of(const ExportPiece& piece, const TensorSpec& spec) {
  const std::int64_t element = size_of(spec.dtype);
  std::vector<hdf5::Hyperslab> slabs;
  for (Box& box : row_major_boxes(spec.shape, piece.output_offset / element, piece.output_bytes / element))
    slabs.push_back({std::move(box.start), std::move(box.count)});
  return slabs;
}

class CollectiveExport {
 public:
  CollectiveExport(comm::MpiProcessGroup& world, const ExportOptions& options)
      : world_(world),
        options_(options),
        part_(new_part(world, options.output)),
        source_(share_source(world, options)),
        writes_(plan_writes(source_, world.size())),
        inputs_(source_.checkpoint) {}

  ExportReport run() {
    make_part();
    write();
    check_sources();
    Timer timer;
    read_back();
    const double check_seconds = timer.seconds();
    agree("rank 0 gives the file its name", [&] {
      if (world_.rank() != 0) return;
      rename_path(part_, options_.output);
      sync_directory(directory_of(options_.output));
    });
    return {static_cast<std::int64_t>(source_.plan.tensors.size()), source_.plan.tensor_bytes(), 0, 0, check_seconds};
  }

  // After an error; what another export is writing stays.
  void tidy_up() const {
    if (lock_) try_remove(part_);
  }

 private:
  template <typename Body>
  void agree(std::string_view phase, const Body& body) {
    run_everywhere(world_, phase, [&] {
      body();
      return std::string();
    });
    activity::progressed();
  }

  void make_part();
  void write();
  void write_one(hdf5::MpioFile& file, const CollectiveWrite& write);
  FinishedPiece read(std::size_t piece);
  void check_sources();
  bool reads_back(std::size_t piece);
  void read_back();
  void fail(const std::exception_ptr& error, const char* what);

  comm::MpiProcessGroup& world_;
  const ExportOptions& options_;
  fs::path part_;
  std::optional<OutputLock> lock_;  // of rank 0
  ExportSource source_;
  std::vector<CollectiveWrite> writes_;
  OpenFiles inputs_;
  std::vector<std::byte> read_, converted_;
  AlignedBuffer read_back_;
  std::vector<FinishedPiece> finished_;  // by this rank, then by all
  std::exception_ptr failure_;           // the first of this rank
};

void CollectiveExport::make_part() {
  agree("rank 0 removes what an earlier export left", [&] {
    if (world_.rank() != 0) return;
    lock_.emplace(options_.output);
    remove_leftovers(options_.output);
  });
  agree("rank 0 lays out the file", [&] {
    if (world_.rank() == 0) lay_out_part(part_, source_);
  });
  agree("all ranks see the file", [&] { await_part(part_, source_.layout.files.front().bytes); });
}

void CollectiveExport::fail(const std::exception_ptr& error, const char* what) {
  log::error("{}", what);  // the others may be in a call of MPI-IO that this rank was needed for
  if (!failure_) failure_ = error;
}

FinishedPiece CollectiveExport::read(std::size_t index) {
  const ExportPiece& piece = source_.pieces[index];
  const PlacedRegion& region = source_.regions[piece.region];
  const DType from = source_.manifest.tensors[region.tensor].spec.dtype,
              to = source_.plan.tensors[piece.tensor].spec.dtype;
  read_.resize(static_cast<std::size_t>(piece.bytes));
  as_damage([&] {
    const auto input = inputs_.open(source_.manifest.files[region.file].name);
    input->read_at(region.file_offset + piece.begin, read_.data(), read_.size());
  });
  FinishedPiece finished{index};
  finished.source_crc = crc32c(read_.data(), read_.size());
  if (from == to) {
    converted_.swap(read_);
    finished.output_crc = finished.source_crc;
    return finished;
  }
  converted_.resize(static_cast<std::size_t>(piece.output_bytes));
  convert_elements(read_.data(), from, converted_.data(), to, piece.bytes / size_of(from));
  finished.output_crc = crc32c(converted_.data(), converted_.size());
  return finished;
}

// Whatever happens to this rank, it takes part in the collective call: the others are in it.
void CollectiveExport::write_one(hdf5::MpioFile& file, const CollectiveWrite& write) {
  const ExportTensor& tensor = source_.plan.tensors[write.tensor];
  const auto& mine = write.pieces[static_cast<std::size_t>(world_.rank())];
  std::vector<hdf5::Hyperslab> slabs;
  std::optional<FinishedPiece> finished;
  try {
    if (mine && !failure_) {
      finished = read(*mine);
      slabs = slabs_of(source_.pieces[*mine], tensor.spec);
    }
  } catch (const std::exception& error) {
    fail(std::current_exception(), error.what());
  }
  try {
    file.write(hdf5_dataset_path(tensor.spec.name, tensor.state), tensor.spec.dtype, slabs,
               slabs.empty() ? nullptr : converted_.data());
    if (finished) finished_.push_back(*finished);
  } catch (const std::exception& error) {
    fail(std::current_exception(), error.what());
  }
  activity::progressed();
}

void CollectiveExport::write() {
  std::optional<hdf5::MpioFile> file;
  std::optional<OutputFile> own;
  agree("all ranks open the file", [&] {
    own.emplace(OutputFile::open_existing(part_));
    file.emplace(part_, world_.communicator(), hdf5::stripe_hints(source_.plan.tensor_bytes()));
  });
  // Every rank syncs, since each node may hold some of it back.
  const auto come_together = [&](std::string_view phase) {
    agree(phase, [&] {
      if (failure_) std::rethrow_exception(failure_);
      own->sync();
    });
  };
  constexpr std::int64_t kSyncBytesPerRank = std::int64_t{64} << 20;
  std::int64_t since = 0;
  for (const CollectiveWrite& write : writes_) {
    write_one(*file, write);
    for (const auto& piece : write.pieces) since += piece ? source_.pieces[*piece].output_bytes : 0;
    if (since < kSyncBytesPerRank * world_.size()) continue;
    come_together("all ranks write the file");
    since = 0;
  }
  come_together("all ranks write the file");
  agree("all ranks close the file", [&] { file->close(); });
  come_together("all ranks sync the file");
}

// The checksums of what was read are parts of those of the regions.
void CollectiveExport::check_sources() {
  std::string mine(reinterpret_cast<const char*>(finished_.data()), finished_.size() * sizeof(FinishedPiece));
  finished_.assign(source_.pieces.size(), {});
  for (const std::string& bytes : comm::all_gather_bytes(world_, mine))
    for (std::size_t at = 0; at < bytes.size(); at += sizeof(FinishedPiece)) {
      FinishedPiece piece;
      std::memcpy(&piece, bytes.data() + at, sizeof(piece));
      finished_.at(piece.piece) = piece;
    }
  std::vector<std::uint32_t> crcs(source_.regions.size(), 0);
  std::vector<bool> touched(crcs.size(), false);
  for (std::size_t i = 0; i < source_.pieces.size(); ++i) {
    const ExportPiece& piece = source_.pieces[i];
    const std::int64_t after = source_.regions[piece.region].bytes - piece.begin - piece.bytes;
    crcs[piece.region] ^= crc32c_share(finished_[i].source_crc, static_cast<std::uint64_t>(after));
    touched[piece.region] = true;
  }
  for (std::size_t i = 0; i < crcs.size(); ++i)  // the same on all ranks
    if (touched[i]) check_crc(source_.regions[i], crcs[i], source_.checkpoint, source_.manifest);
}

// What another rank has written: from the disk or the file system's servers, past the caches of this node, which may
// remember for a while what was there before (GlusterFS: of small files).
bool CollectiveExport::reads_back(std::size_t index) {
  constexpr double kPatienceSeconds = 5;
  constexpr std::chrono::milliseconds kPause(300);
  const ExportPiece& piece = source_.pieces[index];
  const auto bytes = static_cast<std::size_t>(piece.output_bytes);
  for (const Timer waited;; std::this_thread::sleep_for(kPause)) {
    const std::byte* const found = DirectInput(part_, /*direct=*/true).read_at(piece.place.offset, bytes, read_back_);
    if (crc32c(found, bytes) == finished_[index].output_crc) return true;
    if (waited.seconds() > kPatienceSeconds) return false;
  }
}

void CollectiveExport::read_back() {
  const int neighbour = (world_.rank() + 1) % world_.size();
  agree("all ranks read the file back", [&] {
    for (const CollectiveWrite& write : writes_) {
      const auto& index = write.pieces[static_cast<std::size_t>(neighbour)];
      if (!index) continue;
      const ExportPiece& piece = source_.pieces[*index];
      SHOAL_CHECK(reads_back(*index), IoError,
                  "{}: tensor '{}' does not read back as rank {} has written it, at byte {}: the disk or MPI-IO is not "
                  "to be trusted",
                  part_.string(), source_.plan.tensors[piece.tensor].spec.name, neighbour, piece.place.offset);
      activity::progressed();
    }
  });
}

}  // namespace

ExportReport export_collectively(comm::MpiProcessGroup& world, const ExportOptions& options) {
  const Timer timer;
  run_everywhere(world, [&] {
    hdf5::require_mpio("writing " + options.output.string() + " by all ranks at once");
    SHOAL_CHECK(options.format == ExportFormat::hdf5, OptionError, "all ranks at once write HDF5 alone");
    return std::string();
  });
  CollectiveExport job(world, options);
  try {
    ExportReport report = job.run();
    report.seconds = timer.seconds();
    return report;
  } catch (const std::exception&) {
    job.tidy_up();
    throw;
  }
}

}  // namespace shoal::checkpoint

#include "checkpoint/export.h"

#include <optional>
#include <system_error>

#include "checkpoint/catalog.h"
#include "checkpoint/export_parts.h"
#include "checkpoint/hf_config.h"
#include "checkpoint/output_lock.h"
#include "core/check.h"
#include "core/direct_file.h"
#include "core/hash.h"
#include "core/timer.h"

namespace shoal::checkpoint {
namespace fs = std::filesystem;
namespace {

constexpr std::int64_t kChunksPerWorker = 3;  // what was read and, at most twice as large, converted

ExportSource read_source(const ExportOptions& options) {
  ExportSource source;
  source.checkpoint = options.checkpoint;
  source.manifest = open_checkpoint(options.checkpoint);
  source.plan = plan_export(source.manifest, options.selection);
  if (options.format == ExportFormat::npz) write_aliases_out(source.plan);
  return source;
}

fs::path journal_path(const ExportOptions& options) {
  const fs::path stem = options.shard_bytes > 0 ? options.output / "model.safetensors" : options.output;
  return part_path(stem).string() + ".journal";
}

void check_directory(const fs::path& path, bool wanted) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return;
  SHOAL_CHECK(fs::is_directory(path, ignored) == wanted, OptionError, "--output {} is {}", path.string(),
              wanted ? "a file; with --max-shard-size it is a folder" : "a directory; give a file name");
}

}  // namespace

Export::Export(ExportOptions options) : options_(std::move(options)), source_(read_source(options_)) {
  SHOAL_CHECK(options_.format == ExportFormat::safetensors || options_.shard_bytes == 0, OptionError,
              "--max-shard-size needs --format safetensors");
  const bool holds_optimizer = options_.format == ExportFormat::hdf5 || options_.format == ExportFormat::torch;
  SHOAL_CHECK(holds_optimizer || !options_.selection.with_optimizer, OptionError,
              "--with-optimizer needs --format hdf5 or pt");
  SHOAL_CHECK(options_.workers >= 1 && options_.piece_bytes % sizeof(double) == 0, InternalError, "workers or pieces");
  check_directory(options_.output, options_.shard_bytes > 0);
  source_.layout = lay_out();
  check_output();
  source_.regions = place_regions(options_.checkpoint, source_.manifest);
  source_.pieces = cut_pieces(source_.manifest, source_.regions, source_.plan, source_.layout, options_.piece_bytes);
  memory_ = needed_memory();
}

// Of a whole model under its own names.
std::string Export::config() const {
  const ExportSelection& selection = options_.selection;
  if (!selection.select.empty() || !selection.rename.empty()) return "";
  return hf_config(source_.manifest).value_or("");
}

ExportLayout Export::lay_out() const {
  switch (options_.format) {
    case ExportFormat::hdf5: return lay_out_hdf5(options_.output, source_.manifest, source_.plan);
    case ExportFormat::safetensors:
      return lay_out_safetensors(options_.output, source_.plan, options_.shard_bytes, config());
    case ExportFormat::npz: return lay_out_npz(options_.output, source_.plan);
    case ExportFormat::torch: break;
  }
  return lay_out_torch(options_.output, source_.manifest, source_.plan, options_.selection.with_optimizer);
}

void Export::check_output() const {
  std::error_code ignored;
  for (const ExportFile& file : source_.layout.files)
    SHOAL_CHECK(options_.force || !fs::exists(file.path, ignored), OptionError,
                "{} exists; give --force to replace it, or another --output", file.path.string());
}

ExportMemory Export::needed_memory() const {
  // Names and JSON of a tensor, as objects; measured, with room to spare.
  constexpr std::int64_t kBytesPerTensor = 2 << 10;
  ExportMemory memory;
  memory.tables = static_cast<std::int64_t>(source_.regions.size() * (sizeof(PlacedRegion) + 12) +
                                            source_.pieces.size() * (sizeof(ExportPiece) + 2 * sizeof(FinishedPiece)) +
                                            source_.manifest.tensors.size() * kBytesPerTensor);
  // And what makes them begin and end where the files' blocks do.
  const std::int64_t per_worker = kChunksPerWorker * (kChunkBytes + static_cast<std::int64_t>(direct_block()));
  const std::int64_t allowed = (options_.memory - memory.tables) / per_worker;
  SHOAL_CHECK(allowed >= 1, OptionError, "--memory {} is too little: this checkpoint needs {} bytes", options_.memory,
              memory.tables + per_worker);
  memory.workers = static_cast<int>(std::min<std::int64_t>(options_.workers, allowed));
  memory.buffers = memory.workers * per_worker;
  return memory;
}

// Of all that decides which bytes go where.
std::uint64_t Export::fingerprint() const {
  std::uint64_t hash = hash_string(source_.manifest.id);
  const auto add = [&](std::uint64_t value) { hash = hash_combine(hash, value); };
  for (const ExportFile& file : source_.layout.files) add(static_cast<std::uint64_t>(file.bytes));
  for (const auto& [source, spec, state] : source_.plan.tensors)
    add(hash_string(fmt::format("{}/{}/{}/{}", source, state, name_of(spec.dtype), spec.name)));
  for (const auto& [alias, tensor] : source_.plan.aliases) add(hash_string(fmt::format("{}={}", alias, tensor)));
  for (const ExportPiece& piece : source_.pieces) {
    for (const std::int64_t number : {piece.begin, piece.bytes, piece.place.offset, piece.output_bytes})
      add(static_cast<std::uint64_t>(number));
    add(piece.place.file);
  }
  return hash;
}

void Export::copy(ExportParts& parts, ExportReport& report) const {
  parts.open();
  ExportCopy copy(source_, parts, options_.sync_bytes, options_.direct);
  report.bytes_before = copy.copied_bytes();
  std::int64_t all_bytes = 0;
  for (const ExportPiece& piece : source_.pieces) all_bytes += piece.bytes;
  const auto tell = [&](bool checking, std::int64_t bytes, std::int64_t all) {
    if (options_.progress) options_.progress({checking, bytes, all, checking ? 0 : report.bytes_before});
  };
  copy.run(memory_.workers, [&] { tell(false, copy.copied_bytes(), all_bytes); });
  if (!parts.team().leads()) return;
  parts.team().await_others();
  copy.add(parts.finished_by_others());
  const std::vector<ExportRecord> records = source_.layout.records(copy.parts());
  parts.write(records);
  if (options_.read_back) {
    const Timer timer;
    parts.read_back(records);
    copy.read_back(memory_.workers, [&] { tell(true, copy.checked_bytes(), report.bytes); });
    report.check_seconds = timer.seconds();
  }
  parts.finish();
}

ExportReport Export::run() {
  const Timer timer;
  ExportReport report;
  report.tensors = static_cast<std::int64_t>(source_.plan.tensors.size());
  report.bytes = source_.plan.tensor_bytes();
  if (options_.shard_bytes > 0) make_directories(options_.output);
  std::optional<OutputLock> lock;
  if (options_.member.index == 0) {
    lock.emplace(options_.output);
    check_output();  // whoever had the lock may have made it
  }
  const fs::path journal = journal_path(options_);
  ExportParts parts(source_.layout, journal, fingerprint(),
                    ExportTeam(fs::path(journal).replace_extension(), options_.member), options_.direct);
  const ExportTeam& team = parts.team();
  try {
    copy(parts, report);
  } catch (const std::exception& error) {
    if (team.is_alone()) {
      parts.remove();
    } else if (team.leads()) {  // the others may still be writing
      team.announce(error.what());
    } else {
      team.report(error.what());
    }
    throw;
  }
  if (!team.leads()) team.report("");
  report.seconds = timer.seconds();
  return report;
}

}  // namespace shoal::checkpoint

#include "checkpoint/shard_output.h"

#include "core/check.h"
#include "core/crc32c.h"

namespace shoal::checkpoint {
namespace {

constexpr std::int64_t kWriteBackBytes = 64 << 20;

}  // namespace

ShardOutput::ShardOutput(std::string name, OutputFile file, const StateDict& state, RegionTable table,
                         std::vector<std::int64_t> places, SaveObserver observer)
    : name_(std::move(name)), observer_(std::move(observer)), table_(std::move(table)), file_(std::move(file)) {
  for (std::size_t i = 0; i < table_.size(); ++i) {
    regions_.push_back({table_[i].tensor, bytes_of(table_[i], state), places.at(i)});
    data_bytes_ += regions_.back().bytes;
  }
  pass(observer_, SavePoint::shard_created);
}

ShardOutput::ShardOutput(std::string name, LaidOutShard made, const StateDict& state, RegionTable table,
                         SaveObserver observer)
    : ShardOutput(std::move(name), std::move(made.file), state, std::move(table), std::move(made.places.rows),
                  std::move(observer)) {
  table_offset_ = made.places.table;
}

ShardOutput::ShardOutput(const std::filesystem::path& directory, const ShardHeader& header, const StateDict& state,
                         SaveObserver observer)
    : ShardOutput(header.file_name(), lay_out_shard(directory / header.file_name(), header, state, table_of(state)),
                  state, table_of(state), std::move(observer)) {}

void ShardOutput::add_to_checksum(std::size_t index, const std::byte* data, std::size_t bytes) {
  table_[index].crc = crc32c(data, bytes, static_cast<std::uint32_t>(table_[index].crc));
}

void ShardOutput::write(std::size_t index, std::int64_t offset, const std::byte* data, std::size_t bytes) {
  const std::int64_t half = data_bytes_ / 2;
  file_.write_at(regions_[index].file_offset + offset, data, bytes);
  const bool first_half = written_ <= half;
  const std::int64_t before = written_ / kWriteBackBytes;
  written_ += static_cast<std::int64_t>(bytes);
  // The disk works while there is more to write, and the last sync is short.
  if (written_ / kWriteBackBytes > before) file_.write_back();
  if (first_half && written_ > half) pass(observer_, SavePoint::shard_half_written);
}

void ShardOutput::finish() {
  SHOAL_ASSERT(written_ == data_bytes_);
  if (table_offset_ >= 0) file_.write_at(table_offset_, table_.data(), table_.size() * sizeof(RegionRow));
  pass(observer_, SavePoint::shard_written);
  file_.sync();
  file_bytes_ = file_.size();
  file_.close();
  pass(observer_, SavePoint::shard_synced);
}

ShardFile ShardOutput::description() const {
  return {name_, file_bytes_, static_cast<std::int64_t>(table_.size()), table_crc(table_)};
}

}  // namespace shoal::checkpoint

#include "data/token_writer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "core/check.h"
#include "data/llmc_header.h"
#include "data/megatron_index.h"
#include "hdf5/integer_dataset.h"

namespace shoal::data {
namespace fs = std::filesystem;
namespace {

constexpr const char* kHdf5Name = "/tokens";

fs::path index_of(const fs::path& tokens) { return fs::path(tokens).replace_extension(".idx"); }

std::array<std::int32_t, llmc::kHeaderBytes / 4> llmc_header(TokenType type, std::int64_t count) {
  const bool is_16 = type == TokenType::uint16;
  return {is_16 ? llmc::kMagic : llmc::kMagicLlama3, is_16 ? llmc::kVersion16 : llmc::kVersion32,
          static_cast<std::int32_t>(count)};
}

// Lengths of the documents, or parts of them, within tokens begin … begin + count - 1.
std::vector<std::int64_t> lengths_within(std::span<const std::int64_t> document_ends, std::int64_t begin,
                                         std::int64_t count) {
  std::vector<std::int64_t> lengths;
  std::int64_t at = begin;
  for (const std::int64_t end : document_ends) {
    const std::int64_t until = std::min(end, begin + count);
    if (until <= at) continue;
    lengths.push_back(until - at);
    at = until;
  }
  return lengths;
}

void write_hdf5(PartFile& file, const PartFile& spool, TokenType type, std::int64_t begin, std::int64_t count) {
  hdf5::File layout = hdf5::File::create_in_memory(file.path().string());
  const hdf5::Placement place = hdf5::create_integers(layout, kHdf5Name, bytes_of(type), count);
  const std::int64_t size = layout.close_into(
      [&](std::int64_t offset, const void* data, std::size_t bytes) { file.write_at(offset, data, bytes); });
  file.resize(size);
  file.copy_at(place.file_offset, spool, begin * bytes_of(type), count * bytes_of(type));
}

// An HDF5 file is another one than that in which the tokens wait.
fs::path spool_path(const TokenOutput& output) {
  return output.format == TokenFormat::hdf5 ? fs::path(output.path.string() + ".tokens") : output.path;
}

}  // namespace

TokenFormat parse_token_format(const std::string& name) {
  constexpr std::array<const char*, 4> kNames{"plain", "llmc", "megatron", "hdf5"};
  const auto* found = std::ranges::find(kNames, name);
  SHOAL_CHECK(found != kNames.end(), OptionError, "--format {} is not known; it is plain, llmc, megatron or hdf5",
              name);
  return static_cast<TokenFormat>(found - kNames.begin());
}

std::vector<fs::path> TokenOutput::files() const {
  std::vector<fs::path> files;
  for (const fs::path& tokens : {path, val_path}) {
    if (tokens.empty()) continue;
    files.push_back(tokens);
    if (format == TokenFormat::megatron) files.push_back(index_of(tokens));
  }
  return files;
}

TokenWriter::TokenWriter(TokenOutput output) : output_(std::move(output)), spool_(spool_path(output_)) {
  SHOAL_ASSERT(output_.type == TokenType::uint16 || output_.type == TokenType::uint32);
}

std::int64_t TokenWriter::header_bytes() const { return output_.format == TokenFormat::llmc ? llmc::kHeaderBytes : 0; }

void TokenWriter::append(std::span<const std::uint32_t> tokens) {
  const std::int64_t offset = header_bytes() + tokens_ * bytes_of(output_.type);
  tokens_ += std::ssize(tokens);
  SHOAL_CHECK(output_.format != TokenFormat::llmc || tokens_ <= std::numeric_limits<std::int32_t>::max(), DataError,
              "{}: llm.c's header counts no more than 2147483647 tokens; give --format plain, or write several files",
              output_.path.string());
  if (output_.type == TokenType::uint32) return spool_.write_at(offset, tokens.data(), tokens.size_bytes());
  std::vector<std::uint16_t> narrow(tokens.size());
  std::ranges::transform(tokens, narrow.begin(), [](std::uint32_t token) { return static_cast<std::uint16_t>(token); });
  spool_.write_at(offset, narrow.data(), narrow.size() * sizeof(narrow[0]));
}

void TokenWriter::end_document() { document_ends_.push_back(tokens_); }

// What a file has besides its tokens: a header, or a second file. The latter is there before the tokens are.
void TokenWriter::write_companions(PartFile& file, std::int64_t begin, std::int64_t count) {
  if (output_.format == TokenFormat::llmc) {
    const auto header = llmc_header(output_.type, count);
    file.write_at(0, header.data(), sizeof(header));
  } else if (output_.format == TokenFormat::megatron) {
    const TokenType type = output_.type == TokenType::uint32 ? TokenType::int32 : output_.type;
    const std::string bytes = megatron_index(type, lengths_within(document_ends_, begin, count));
    PartFile index(index_of(file.path()));
    index.write_at(0, bytes.data(), bytes.size());
    index.commit();
  }
}

void TokenWriter::write_file(const fs::path& path, std::int64_t begin, std::int64_t count) {
  PartFile file(path);
  if (output_.format == TokenFormat::hdf5) {
    write_hdf5(file, spool_, output_.type, begin, count);
  } else {
    write_companions(file, begin, count);
    const std::int64_t offset = header_bytes() + begin * bytes_of(output_.type);
    file.copy_at(header_bytes(), spool_, offset, count * bytes_of(output_.type));
  }
  file.commit();
}

void TokenWriter::finish() {
  const auto val_count = static_cast<std::int64_t>(std::floor(static_cast<double>(tokens_) * output_.val_fraction));
  const std::int64_t count = tokens_ - val_count;
  SHOAL_CHECK(count > 0, DataError, "there are no tokens for {}: the text is empty", output_.path.string());
  SHOAL_CHECK(output_.val_path.empty() || val_count > 0, DataError,
              "{} tokens are too few to give a part of {} of them to {}", tokens_, output_.val_fraction,
              output_.val_path.string());
  if (val_count > 0) write_file(output_.val_path, count, val_count);
  if (output_.format == TokenFormat::hdf5) return write_file(output_.path, 0, count);
  write_companions(spool_, 0, count);
  spool_.resize(header_bytes() + count * bytes_of(output_.type));
  spool_.commit();
}

}  // namespace shoal::data

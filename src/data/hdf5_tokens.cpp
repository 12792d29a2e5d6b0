#include "data/hdf5_tokens.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "core/check.h"
#include "hdf5/integer_dataset.h"

namespace shoal::data {
namespace {

class Hdf5Source final : public TokenSource {
 public:
  Hdf5Source(hdf5::IntegerDataset dataset, std::string name) : dataset_(std::move(dataset)), name_(std::move(name)) {}

  const std::string& name() const override { return name_; }
  std::int64_t size() const override { return dataset_.size(); }
  void read(std::int64_t begin, std::span<std::int64_t> into) const override {
    SHOAL_ASSERT(begin >= 0 && begin + static_cast<std::int64_t>(into.size()) <= size());
    try {
      dataset_.read(begin, into);
    } catch (const hdf5::Hdf5Error& error) {
      throw DataError("{}", error.what());
    }
  }
  std::uint64_t largest(std::int64_t begin, std::int64_t count) const override {
    std::vector<std::int64_t> tokens(static_cast<std::size_t>(count));
    read(begin, tokens);
    const auto as_unsigned = [](std::int64_t token) { return static_cast<std::uint64_t>(token); };
    return as_unsigned(*std::ranges::max_element(tokens, {}, as_unsigned));
  }

 private:
  hdf5::IntegerDataset dataset_;
  std::string name_;
};

std::optional<TokenType> type_of(const hdf5::IntegerDataset& dataset) {
  if (!dataset.is_little_endian()) return std::nullopt;
  for (const TokenType type :
       {TokenType::uint8, TokenType::uint16, TokenType::uint32, TokenType::int32, TokenType::int64}) {
    const bool is_signed = type == TokenType::int32 || type == TokenType::int64;
    if (bytes_of(type) == dataset.element_bytes() && is_signed == dataset.is_signed()) return type;
  }
  return std::nullopt;
}

hdf5::IntegerDataset only_dataset(const std::filesystem::path& path) {
  try {
    const auto names = hdf5::integer_datasets(path);
    SHOAL_CHECK(names.size() == 1, DataError, "{}: {} datasets of integers with one dimension; a token file has one",
                path.string(), names.size());
    return hdf5::IntegerDataset(path, names.front());
  } catch (const hdf5::Hdf5Error& error) {
    throw DataError("{}", error.what());
  }
}

}  // namespace

std::unique_ptr<TokenSource> open_hdf5_tokens(const std::shared_ptr<const MappedFile>& file) {
  hdf5::IntegerDataset dataset = only_dataset(file->path());
  const std::string name = file->path().string();
  const auto type = type_of(dataset);
  const std::int64_t offset = dataset.file_offset();
  if (!type || offset < 0 || offset % bytes_of(*type) != 0)
    return std::make_unique<Hdf5Source>(std::move(dataset), name);
  SHOAL_CHECK(dataset.size() <= (file->size() - offset) / bytes_of(*type), DataError,
              "{}: the file ends before all of its {} tokens: it is truncated", name, dataset.size());
  return make_array_source({file->bytes().data() + offset, dataset.size(), *type, file}, name);
}

}  // namespace shoal::data

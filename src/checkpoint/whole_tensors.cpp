#include "checkpoint/whole_tensors.h"

#include <fmt/ranges.h>

#include <cstdint>

#include "core/check.h"
#include "core/crc32c.h"

namespace shoal::checkpoint {
namespace {

std::uint32_t share_of(std::uint32_t crc, std::uint64_t end, const TensorSpec& tensor) {
  const auto left = static_cast<std::uint64_t>(tensor.numel()) - end;
  return crc32c_share(crc, left * static_cast<std::uint64_t>(size_of(tensor.dtype)));
}

std::vector<std::uint32_t> checksums_of_files(const Manifest& manifest, const std::vector<RegionTable>& tables) {
  std::vector<std::uint32_t> checksums(manifest.tensors.size(), 0);
  for (const RegionTable& table : tables)
    for (const RegionRow& row : table)
      checksums[row.tensor] ^=
          share_of(static_cast<std::uint32_t>(row.crc), row.begin + row.count, manifest.tensors[row.tensor].spec);
  return checksums;
}

// A sum of numbers whose bits lie far apart counts, for each bit, the ranks that have it: its parity is the exclusive
// or. Four bits a number, for up to 65,535 ranks.
constexpr int kBits = 32, kApart = 16, kTogether = 4, kNumbers = kBits / kTogether;

void spread(std::uint32_t bits, std::int64_t* numbers) {
  for (int bit = 0; bit < kBits; ++bit)
    numbers[bit / kTogether] |= static_cast<std::int64_t>(bits >> bit & 1) << (bit % kTogether * kApart);
}

std::uint32_t parities(const std::int64_t* numbers) {
  std::uint32_t bits = 0;
  for (int bit = 0; bit < kBits; ++bit)
    bits |= static_cast<std::uint32_t>(numbers[bit / kTogether] >> (bit % kTogether * kApart) & 1) << bit;
  return bits;
}

}  // namespace

void check_whole_tensors(comm::ProcessGroup& world, const Manifest& manifest, const std::vector<RegionTable>& tables,
                         const PlacedElements& placed, const std::string& where) {
  constexpr std::size_t kEach = 1 + kNumbers;  // bytes, then the checksum
  const std::vector<ShardedTensor*>& tensors = placed.tensors();
  std::vector<std::int64_t> sums(kEach * tensors.size(), 0);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i] == nullptr || !tensors[i]->saves) continue;
    sums[kEach * i] = placed.of(i).bytes;
    spread(placed.of(i).crc, &sums[kEach * i + 1]);
  }
  if (sums.empty()) return;
  world.all_reduce(sums.data(), static_cast<std::int64_t>(sums.size()), DType::int64, comm::ReduceOp::sum)->wait();
  const std::vector<std::uint32_t> expected = checksums_of_files(manifest, tables);
  std::vector<std::string> wrong;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i] == nullptr) continue;
    const TensorSpec& spec = tensors[i]->spec;
    if (sums[kEach * i] != spec.numel() * size_of(spec.dtype) || parities(&sums[kEach * i + 1]) != expected[i])
      wrong.push_back(spec.name);
  }
  SHOAL_CHECK(wrong.empty(), InternalError, "{}: the tensors in memory are not those of the files: {}", where,
              fmt::join(wrong, ", "));
}

}  // namespace shoal::checkpoint

// make_from_description DIR DESCRIPTION: writes a checkpoint of what a script describes, for scripts that know what
// they put in. DESCRIPTION is a JSON file
//   {"step": 7, "ranks": 3, "training_state": {…}, "aliases": [[ALIAS, NAME], …],
//    "tensors": [{"name": "model/…", "dtype": …, "shape": […], "unit": …, "offset": …}, …]}
// beside which DESCRIPTION.bin has the elements, those of a tensor from byte `offset` on. What is a hole there takes
// neither memory here nor room in the checkpoint. Prints the checkpoint's path.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "checkpoint/attempt.h"
#include "checkpoint/sample_state.h"
#include "checkpoint/shard_layout.h"
#include "core/all_zero.h"
#include "core/check.h"
#include "core/crc32c.h"
#include "core/file_io.h"

namespace {

using nlohmann::json;
using namespace shoal;
using namespace shoal::checkpoint;

// Until the process ends: tensors point into it.
std::byte* elements_of(const std::string& path) {
  const Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  SHOAL_CHECK(descriptor, IoError, "cannot read {}", path);
  const off_t bytes = ::lseek(descriptor.get(), 0, SEEK_END);
  void* const memory = ::mmap(nullptr, static_cast<std::size_t>(bytes) + 1, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  SHOAL_CHECK(memory != MAP_FAILED, IoError, "no address space for {}", path);
  auto* const elements = static_cast<std::byte*>(memory);
  const InputFile file(path);
  for (off_t begin = 0, end = 0; (begin = ::lseek(descriptor.get(), end, SEEK_DATA)) >= 0;) {
    end = ::lseek(descriptor.get(), begin, SEEK_HOLE);
    file.read_at(begin, elements + begin, static_cast<std::size_t>(end - begin));
  }
  return elements;
}

StateDict state_of(const json& described, std::byte* elements, int rank, int ranks) {
  std::vector<testing::SampleTensor> tensors;
  for (const json& tensor : described.at("tensors"))
    tensors.push_back({tensor.at("name"), dtype_from_name(tensor.at("dtype").get<std::string>()), tensor.at("shape"),
                       tensor.at("unit")});
  StateDict state = testing::cut_state(tensors, rank, ranks);
  state.aliases = described.at("aliases").get<std::vector<std::pair<std::string, std::string>>>();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    Region& region = state.tensors[i].region;
    region.data =
        elements + described["tensors"][i].at("offset").get<std::int64_t>() + region.begin * size_of(tensors[i].dtype);
  }
  return state;
}

ShardFile write_sparse_shard(const std::filesystem::path& directory, const ShardHeader& header,
                             const StateDict& state) {
  RegionTable table = table_of(state);
  LaidOutShard shard = lay_out_shard(directory / header.file_name(), header, state, table);
  for (std::size_t row = 0; row < table.size(); ++row) {
    const std::byte* const data = state.tensors[table[row].tensor].region.data;
    for (std::int64_t done = 0, bytes = bytes_of(table[row], state); done < bytes; done += kChunkBytes) {
      const auto chunk = static_cast<std::size_t>(std::min(kChunkBytes, bytes - done));
      table[row].crc = crc32c(data + done, chunk, static_cast<std::uint32_t>(table[row].crc));
      if (!all_zero(data + done, chunk)) shard.file.write_at(shard.places.rows[row] + done, data + done, chunk);
    }
  }
  if (!table.empty()) shard.file.write_at(shard.places.table, table.data(), table.size() * sizeof(RegionRow));
  shard.file.sync();
  return {header.file_name(), shard.file.size(), static_cast<std::int64_t>(table.size()), table_crc(table)};
}

std::filesystem::path make(const std::filesystem::path& directory, const std::string& description) {
  const json described = json::parse(read_text_file(description));
  std::byte* const elements = elements_of(description + ".bin");
  const int ranks = described.at("ranks");
  return testing::write_states(
      directory, described.at("step"), ranks, [&](int rank) { return state_of(described, elements, rank, ranks); },
      described.at("training_state").dump(), write_sparse_shard);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    std::puts(make(argv[1], argv[2]).c_str());
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "make_from_description: %s\n", error.what());
    return 1;
  }
}

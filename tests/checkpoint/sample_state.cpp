#include "checkpoint/sample_state.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <map>
#include <random>

#include "checkpoint/attempt.h"
#include "checkpoint/shard_writer.h"
#include "core/hash.h"
#include "shard/shard_layout.h"

namespace shoal::testing {
namespace fs = std::filesystem;
namespace {

ShardedTensor cut_tensor(const SampleTensor& sample, const ShardLayout& layout, std::size_t index, int rank) {
  ShardedTensor tensor{{sample.name, sample.dtype, sample.shape}, {}, {}, true};
  if (sample.unit.empty()) {
    tensor.region = {0, tensor.spec.numel(), nullptr};
    tensor.saves = rank == 0;
  } else {
    const TensorSlice slice = layout.slice(index, rank);
    tensor.rule = {sample.unit, layout.tensor(index).begin, layout.shard_numel()};
    tensor.region = {slice.tensor_begin, slice.count, nullptr};
  }
  return tensor;
}

struct Unit {
  std::vector<std::int64_t> numels;
  std::size_t next = 0;
};

std::map<std::string, Unit> units_of(const std::vector<SampleTensor>& tensors) {
  std::map<std::string, Unit> units;
  for (const SampleTensor& tensor : tensors)
    units[tensor.unit].numels.push_back(TensorSpec{tensor.name, tensor.dtype, tensor.shape}.numel());
  return units;
}

// Every byte of a bool is 0 or 1; elsewhere any pattern will do, and mantissas of all-ones exponents are avoided.
std::byte as_element_byte(DType dtype, std::byte raw) {
  return dtype == DType::boolean ? raw & std::byte{1} : raw & std::byte{0x3F};
}

}  // namespace

fs::path memory_folder() {
  constexpr const char* kShared = "/dev/shm";
  return ::access(kShared, W_OK | X_OK) == 0 ? fs::path(kShared) : fs::temp_directory_path();
}

TemporaryDirectory::TemporaryDirectory(const fs::path& above) {
  std::random_device random;
  path_ = above / fmt::format("shoal_test_{:08x}{:08x}", random(), random());
  fs::create_directories(path_);
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::vector<SampleTensor> sample_tensors() {
  return {{"model/conv1.weight", DType::float32, {7, 3, 3, 3}, "root"},
          {"model/conv1.bias", DType::float32, {7}, "root"},
          {"model/a/b%c", DType::float32, {2, 2}, "root"},
          {"model/half", DType::float16, {13}, "half"},
          {"model/brain", DType::bfloat16, {5, 11}, "brain"},
          {"model/double", DType::float64, {3, 1}, "double"},
          {"model/eight", DType::float8_e4m3fn, {19}, "eight"},
          {"model/eight2", DType::float8_e5m2, {3, 2}, "eight2"},
          {"model/scalar", DType::float32, {}, ""},
          {"model/empty", DType::float32, {0, 4}, ""},
          {"model/count", DType::int64, {}, ""},
          {"model/i32", DType::int32, {5}, ""},
          {"model/i16", DType::int16, {6}, ""},
          {"model/i8", DType::int8, {7}, ""},
          {"model/u8", DType::uint8, {8}, ""},
          {"model/mask", DType::boolean, {3, 3}, ""},
          {"optimizer/exp_avg/conv1.weight", DType::float32, {7, 3, 3, 3}, "moments"},
          {"optimizer/exp_avg/conv1.bias", DType::float32, {7}, "moments"},
          {"optimizer/step/conv1.bias", DType::float32, {1}, "steps"}};
}

std::byte sample_byte(int salt, const std::string& name, std::int64_t index) {
  const std::uint64_t seed = hash_combine(static_cast<std::uint64_t>(salt), hash_string(name));
  return static_cast<std::byte>(hash_combine(seed, static_cast<std::uint64_t>(index)));
}

StateDict cut_state(const std::vector<SampleTensor>& tensors, int rank, int ranks) {
  StateDict state;
  std::map<std::string, Unit> units = units_of(tensors);
  for (const SampleTensor& sample : tensors) {
    Unit& unit = units[sample.unit];
    const ShardLayout layout(unit.numels, ranks);
    state.tensors.push_back(cut_tensor(sample, layout, unit.next++, rank));
  }
  state.aliases = {{"model/tied", tensors.front().name}};
  return state;
}

StateDict blank_state(const std::vector<SampleTensor>& tensors, int rank, int ranks) {
  StateDict state = cut_state(tensors, rank, ranks);
  for (ShardedTensor& tensor : state.tensors) {
    auto memory = std::make_shared<std::vector<std::byte>>(
        static_cast<std::size_t>(tensor.region.count * size_of(tensor.spec.dtype)), std::byte{0xEE});
    tensor.region.data = memory->data();
    state.owned.push_back(memory);
  }
  return state;
}

StateDict sample_state(const std::vector<SampleTensor>& tensors, int rank, int ranks, int salt) {
  StateDict state = blank_state(tensors, rank, ranks);
  for (ShardedTensor& tensor : state.tensors) {
    const std::int64_t element = size_of(tensor.spec.dtype);
    for (std::int64_t i = 0; i < tensor.region.count * element; ++i)
      tensor.region.data[i] =
          as_element_byte(tensor.spec.dtype, sample_byte(salt, tensor.spec.name, tensor.region.begin * element + i));
  }
  return state;
}

bool same_region(const Region& a, const Region& b, std::int64_t width) {
  if (a.count != b.count || a.begin != b.begin) return false;
  return a.count == 0 || std::memcmp(a.data, b.data, static_cast<std::size_t>(a.count * width)) == 0;
}

bool same_elements(const StateDict& a, const StateDict& b) {
  if (a.tensors.size() != b.tensors.size()) return false;
  for (std::size_t i = 0; i < a.tensors.size(); ++i)
    if (!same_region(a.tensors[i].region, b.tensors[i].region, size_of(a.tensors[i].spec.dtype))) return false;
  return true;
}

fs::path write_states(const fs::path& directory, std::int64_t step, int ranks,
                      const std::function<StateDict(int rank)>& state_of, const std::string& training_state,
                      const WriteShard& write) {
  const checkpoint::Attempt attempt = checkpoint::begin_attempt(directory, step);
  checkpoint::Manifest manifest;
  manifest.id = attempt.id;
  manifest.sequence = attempt.sequence;
  manifest.step = step;
  manifest.ranks = ranks;
  manifest.created = "2026-01-02T03:04:05Z";
  manifest.training_state = training_state;
  for (int rank = 0; rank < ranks; ++rank) {
    const StateDict state = state_of(rank);
    const checkpoint::ShardHeader header{attempt.id, step, rank, ranks, ranks};
    manifest.files.push_back(write ? write(attempt.path, header, state) : write_shard(attempt.path, header, state));
    if (rank > 0) continue;
    for (const ShardedTensor& tensor : state.tensors) manifest.tensors.push_back({tensor.spec, tensor.rule});
    manifest.aliases = state.aliases;
  }
  return checkpoint::commit(attempt, manifest);
}

fs::path write_sample(const fs::path& directory, std::int64_t step, int ranks, int salt,
                      const std::vector<SampleTensor>& tensors) {
  return write_states(directory, step, ranks, [&](int rank) { return sample_state(tensors, rank, ranks, salt); });
}

void flip_bit(const fs::path& file, std::int64_t offset, int bit) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(offset);
  const int byte = stream.get();
  stream.seekp(offset);
  stream.put(static_cast<char>(byte ^ (1 << bit)));
  if (!stream) throw std::runtime_error("cannot flip a bit of " + file.string());
}

}  // namespace shoal::testing

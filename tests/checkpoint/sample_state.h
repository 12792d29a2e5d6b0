// Small states for tests: tensors of every element type and awkward sizes, cut as the engine cuts them, with values
// that tell which element of which tensor they are.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/shard_layout.h"
#include "shard/state_dict.h"

namespace shoal::testing {

inline constexpr const char* kTrainingState = R"({"step":7,"lr":0.1,"rng":[1,2,18446744073709551615]})";

// A directory of its own, removed at the end.
class TemporaryDirectory {
 public:
  explicit TemporaryDirectory(const std::filesystem::path& above = std::filesystem::temp_directory_path());
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// For files that need no disk below them: in memory where there is such a place.
std::filesystem::path memory_folder();

struct SampleTensor {
  std::string name;
  DType dtype = DType::float32;
  std::vector<std::int64_t> shape;
  std::string unit;  // empty: whole on every rank, rank 0 saves it
};

// One of each element type, a scalar, an empty tensor, one element, primes; two units and what is not cut.
std::vector<SampleTensor> sample_tensors();

// What rank `rank` of `ranks` holds, each value a function of (salt, tensor's name, element) alone; empty shards where
// there are more ranks than elements. With an alias "model/tied" of the first tensor.
StateDict sample_state(const std::vector<SampleTensor>& tensors, int rank, int ranks, int salt);
// The same shapes and ranges without memory, and filled with 0xEE.
StateDict cut_state(const std::vector<SampleTensor>& tensors, int rank, int ranks);
StateDict blank_state(const std::vector<SampleTensor>& tensors, int rank, int ranks);
// Byte by byte, of `width` an element.
bool same_region(const Region& a, const Region& b, std::int64_t width);
bool same_elements(const StateDict& a, const StateDict& b);

// The byte `index` of the flattened tensor in sample_state().
std::byte sample_byte(int salt, const std::string& name, std::int64_t index);

// Writes a checkpoint of what `state_of` gives for each rank as Checkpointer::save does, without communication, its
// shard files by `write`. Returns its path.
using WriteShard = std::function<checkpoint::ShardFile(const std::filesystem::path& directory,
                                                       const checkpoint::ShardHeader& header, const StateDict& state)>;
std::filesystem::path write_states(const std::filesystem::path& directory, std::int64_t step, int ranks,
                                   const std::function<StateDict(int rank)>& state_of,
                                   const std::string& training_state = kTrainingState, const WriteShard& write = {});
std::filesystem::path write_sample(const std::filesystem::path& directory, std::int64_t step, int ranks, int salt,
                                   const std::vector<SampleTensor>& tensors = sample_tensors());

void flip_bit(const std::filesystem::path& file, std::int64_t offset, int bit = 0);

}  // namespace shoal::testing

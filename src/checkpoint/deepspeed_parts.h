// Which elements of which tensor lie in which flat partition of which file of a DeepSpeed folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/foreign_names.h"
#include "checkpoint/open_files.h"
#include "formats/stored_tensor.h"
#include "formats/torch_archive.h"
#include "shard/shard_layout.h"

namespace shoal::checkpoint {

// Elements of a flattened tensor, from element `first` of `stored` on, which lies in `file`.
struct TensorPiece {
  Range elements;
  std::string file;
  formats::StoredTensor stored;
  std::int64_t first = 0;
};

struct PiecedTensor {
  TensorSpec spec;
  std::vector<TensorPiece> pieces;
};

class DeepspeedParts {
 public:
  // Reads the pickles of all files of the folder. CheckpointError where one is missing or damaged, and for what is no
  // ZeRO of data-parallel ranks alone.
  explicit DeepspeedParts(const std::filesystem::path& folder);

  int stage() const { return stage_; }  // 0: no ZeRO
  std::vector<PiecedTensor> tensors(std::vector<std::pair<std::string, std::string>>& aliases, OptimizerFacts& facts);

 private:
  // The partitions of one kind (masters, exp_avg, …), of each rank, in the order of its groups.
  struct Flat {
    std::string file;
    std::vector<formats::StoredTensor> groups;
  };
  using Flats = std::vector<Flat>;

  std::unique_ptr<formats::TorchArchive> open(const std::string& name);
  void find_files();
  void read_ranks(OptimizerFacts& facts);
  void read_rank(std::size_t rank, OptimizerFacts& facts);
  void read_moments(std::size_t rank, formats::TorchArchive& archive, const formats::PickleNode& state,
                    OptimizerFacts& facts);
  void add_buffers(formats::TorchArchive& model, std::vector<PiecedTensor>& tensors);
  void add_frozen(formats::TorchArchive& model, std::vector<PiecedTensor>& tensors);
  void add_trained(formats::TorchArchive& model, std::vector<PiecedTensor>& tensors) const;
  void add_plain(formats::TorchArchive& model, std::vector<PiecedTensor>& tensors);
  PiecedTensor whole(formats::TorchArchive& archive, const std::string& file, const std::string& name,
                     const formats::PickleNode& node) const;
  std::vector<TensorPiece> pieces_of(const std::string& kind, std::size_t group, std::int64_t begin,
                                     std::int64_t numel) const;
  [[noreturn]] void fail(const std::string& what) const;

  std::filesystem::path folder_;
  OpenFiles files_;
  std::vector<std::string> model_files_, optimizer_files_;  // of rank 0, 1, …
  int stage_ = 0;
  std::map<std::string, Flats> flats_;               // "model" (the masters), "exp_avg", …
  std::vector<std::vector<std::int64_t>> paddings_;  // of each group: behind each of its parameters
};

}  // namespace shoal::checkpoint

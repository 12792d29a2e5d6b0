// Which elements of which tensor lie in which flat partition of which file of a DeepSpeed folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/flat_partitions.h"
#include "checkpoint/foreign_names.h"
#include "checkpoint/open_files.h"
#include "formats/torch_archive.h"

namespace shoal::checkpoint {

struct PiecedTensor {
  TensorSpec spec;
  std::vector<TensorPiece> pieces;
};

class DeepspeedParts {
 public:
  using Aliases = std::vector<std::pair<std::string, std::string>>;

  // Reads the pickles of all files of the folder. CheckpointError where one is missing or damaged, and for what is no
  // ZeRO of data-parallel ranks alone.
  DeepspeedParts(const std::filesystem::path& folder, bool with_moments);

  int stage() const { return stage_; }  // 0: no ZeRO
  std::vector<PiecedTensor> tensors(Aliases& aliases, OptimizerFacts& facts);

 private:
  std::unique_ptr<formats::TorchArchive> open(const std::string& name);
  void find_files();
  void read_rank(std::size_t rank, OptimizerFacts& facts);
  void read_moments(std::size_t rank, formats::TorchArchive& archive, const formats::PickleNode& state,
                    OptimizerFacts& facts);
  void add_rest(formats::TorchArchive& model, std::vector<PiecedTensor>& tensors, const Aliases& aliases) const;
  void add_frozen(formats::TorchArchive& model, std::vector<PiecedTensor>& tensors);
  void add_trained(formats::TorchArchive& model, std::vector<PiecedTensor>& tensors) const;
  void add_plain(formats::TorchArchive& model, std::vector<PiecedTensor>& tensors);
  PiecedTensor whole(formats::TorchArchive& archive, const std::string& file, const std::string& name,
                     const formats::PickleNode& node) const;
  [[noreturn]] void fail(const std::string& what) const;

  std::filesystem::path folder_;
  OpenFiles files_;
  std::vector<std::string> model_files_, optimizer_files_;  // of rank 0, 1, …
  bool with_moments_;
  int stage_ = 0;
  FlatPartitions partitions_;
};

}  // namespace shoal::checkpoint

// Files of weights for tests, written byte by byte, and what a load makes of them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/load_weights.h"
#include "checkpoint/sample_state.h"
#include "shard/state_dict.h"

namespace shoal::testing {

struct FileTensor {
  TensorSpec spec;    // the name as the file has it
  std::string bytes;  // row-major, in the spec's type
};

// The values that sample_state() has in the tensor "model/NAME".
FileTensor file_tensor(const std::string& name, DType dtype, const std::vector<std::int64_t>& shape, int salt = 1);

std::string safetensors_bytes(const std::vector<FileTensor>& tensors);
std::string torch_zip_bytes(const std::vector<FileTensor>& tensors);
std::string hdf5_bytes(const std::vector<FileTensor>& tensors);  // as 'shoal ckpt consolidate' writes it

// Loads `source` on `ranks` ranks (threads) into tensors of these names (without "model/"), types and shapes, cut as
// the engine cuts them, and puts what the ranks hold together: the bytes of each whole tensor. Every element must come
// from some rank, and every rank has the same report. Throws what load_weights throws.
struct Loaded {
  std::vector<std::string> tensors;
  checkpoint::LoadWeightsReport report;
};
Loaded load_on_ranks(const std::filesystem::path& source, const std::vector<TensorSpec>& model, int ranks,
                     bool rank0_reads = false, const std::vector<std::pair<std::string, std::string>>& aliases = {});

}  // namespace shoal::testing

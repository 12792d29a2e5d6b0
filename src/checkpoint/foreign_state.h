// The training state that another framework has saved: weights, moments of the optimizer and its step, under the names
// that Shoal's checkpoints have.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/weights_file.h"

namespace shoal::checkpoint {

struct ForeignState {
  std::filesystem::path path;
  // Tensors are "model/NAME" and "optimizer/STATE/NAME"; the others are parts of the model that cannot be read.
  WeightsContents contents;
  std::vector<std::pair<std::string, std::string>> aliases;  // tied: {alias, name}, the latter among the tensors
  std::optional<std::int64_t> step;                          // that the optimizer has done
  std::string optimizer;                                     // "adamw", …; empty: none, or not told
  std::map<std::string, std::string> settings;               // of the optimizer ("lr"), for people

  bool has_optimizer() const;
};

struct ForeignOptions {
  std::string key;            // the dictionary in the source that holds the model; "": the usual ones
  bool weights_only = false;  // the optimizer is not looked at
};

// Any source that Shoal knows, told from the contents: a directory of torch.distributed.checkpoint, a folder of
// DeepSpeed, a file of torch.save, and all that WeightsFile opens (weights alone). IoError and CheckpointError as
// there.
ForeignState open_foreign(const std::filesystem::path& path, const ForeignOptions& options);

// One a format.
bool is_dcp_directory(const std::filesystem::path& path);
ForeignState open_dcp(const std::filesystem::path& path, const ForeignOptions& options);
bool is_deepspeed_folder(const std::filesystem::path& path);
ForeignState open_deepspeed(const std::filesystem::path& path, const ForeignOptions& options);
ForeignState open_torch_training(const std::filesystem::path& path, const ForeignOptions& options);

// The model alone, without "model/", as WeightsFile has it.
WeightsContents model_weights(ForeignState state);

}  // namespace shoal::checkpoint

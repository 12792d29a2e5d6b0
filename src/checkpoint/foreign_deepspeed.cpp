// Folders of DeepSpeed's ZeRO. The fp32 masters and moments lie in flat partitions, of which docs/conversion.md tells
// how they are put together: as DeepSpeed's own zero_to_fp32.py does it.
#include <algorithm>

#include "checkpoint/deepspeed_parts.h"
#include "checkpoint/file_names.h"
#include "checkpoint/foreign_names.h"
#include "checkpoint/stored_elements.h"
#include "core/check.h"
#include "shard/shard_layout.h"

namespace shoal::checkpoint {
namespace fs = std::filesystem;
namespace {

using formats::PickleNode;
using formats::StoredTensor;
using formats::TorchArchive;

constexpr const char* kLatest = "latest";
constexpr std::int64_t kMostLatestBytes = 4096;

bool has_states(const fs::path& folder) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored))
    if (entry.path().filename().string().ends_with("_model_states.pt")) return true;
  return false;
}

// The folder itself, or the one that its file "latest" names.
fs::path folder_of(const fs::path& path) {
  if (has_states(path)) return path;
  SHOAL_CHECK(InputFile(path / kLatest).size() <= kMostLatestBytes, CheckpointError, "{} is too large: it is damaged",
              (path / kLatest).string());
  std::string tag = read_text_file(path / kLatest);
  while (!tag.empty() && (tag.back() == '\n' || tag.back() == ' ')) tag.pop_back();
  SHOAL_CHECK(!tag.empty() && tag.front() != '.' && tag.find_first_of(std::string_view("/\0", 2)) == std::string::npos,
              CheckpointError, "{}: '{}' is no name of a folder beside it", (path / kLatest).string(), tag);
  return path / tag;
}

}  // namespace

bool is_deepspeed_folder(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return false;
  return has_states(path) || (fs::is_regular_file(path / kLatest, ignored) && has_states(folder_of(path)));
}

ForeignState open_deepspeed(const fs::path& path, const ForeignOptions& options) {
  const fs::path folder = folder_of(path);
  SHOAL_CHECK(options.key.empty(), OptionError, "--key {}: a folder of DeepSpeed has one model alone", options.key);
  DeepspeedParts parts(folder, !options.weights_only);
  ForeignState state;
  state.path = folder;
  state.contents.format = fmt::format("DeepSpeed, ZeRO-{}", parts.stage());
  OptimizerFacts facts;
  std::vector<PiecedTensor> tensors = parts.tensors(state.aliases, facts);
  for (const PiecedTensor& tensor : tensors) state.contents.tensors.push_back(tensor.spec);
  facts.finish(state);
  state.contents.read = [files = std::make_shared<OpenFiles>(folder), tensors = std::move(tensors)](
                            std::size_t tensor, std::int64_t begin, std::int64_t count, std::byte* into) {
    const std::int64_t element = size_of(tensors[tensor].spec.dtype);
    for (const TensorPiece& piece : tensors[tensor].pieces) {
      const Range both = intersect({begin, count}, piece.elements);
      if (both.count == 0) continue;
      read_stored(*files->open(piece.file), piece.stored, piece.first + both.begin - piece.elements.begin, both.count,
                  into + (both.begin - begin) * element);
    }
  };
  return state;
}

}  // namespace shoal::checkpoint

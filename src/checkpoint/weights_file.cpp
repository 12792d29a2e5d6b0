#include "checkpoint/weights_file.h"

#include <algorithm>
#include <array>
#include <set>
#include <system_error>

#include "checkpoint/catalog.h"
#include "checkpoint/foreign_state.h"
#include "core/check.h"
#include "core/file_io.h"
#include "formats/safetensors.h"
#include "formats/zip_reader.h"

namespace shoal::checkpoint {
namespace fs = std::filesystem;
namespace {

// In the order of preference of Hugging Face's from_pretrained.
constexpr std::array<const char*, 5> kInFolder{"model.safetensors", "model.safetensors.index.json", "pytorch_model.bin",
                                               "pytorch_model.bin.index.json", "model.h5"};
constexpr std::string_view kHdf5Signature = "\x89HDF\r\n\x1a\n";
constexpr std::string_view kOldTorchMagic = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46";  // of torch.save before PyTorch 1.6

fs::path find_in_folder(const fs::path& folder) {
  std::error_code ignored;
  for (const char* name : kInFolder)
    if (fs::exists(folder / name, ignored)) return folder / name;
  throw CheckpointError("{} has no weights: none of model.safetensors, pytorch_model.bin, their .index.json, model.h5",
                        folder.string());
}

std::string head_of(const InputFile& file) {
  std::string head(static_cast<std::size_t>(std::min<std::int64_t>(file.size(), 16)), '\0');
  file.read_at(0, head.data(), head.size());
  return head;
}

// HDF5 lets a user's own bytes stand in front, to 512 bytes or a power of two times that.
bool has_hdf5_signature(const InputFile& file) {
  std::string found(kHdf5Signature.size(), '\0');
  const auto last = file.size() - static_cast<std::int64_t>(found.size());
  for (std::int64_t at = 0; at <= last; at = std::max<std::int64_t>(2 * at, 512)) {
    file.read_at(at, found.data(), found.size());
    if (found == kHdf5Signature) return true;
  }
  return false;
}

void check_names(const WeightsContents& contents, const fs::path& path) {
  std::set<std::string_view> names;
  for (const TensorSpec& spec : contents.tensors)
    SHOAL_CHECK(names.insert(spec.name).second, CheckpointError, "{} has two tensors '{}'", path.string(), spec.name);
}

}  // namespace

WeightsContents open_single_file(const fs::path& path) {
  const InputFile file(path);
  const std::string head = head_of(file);
  if (formats::looks_like_zip(head)) return open_torch_zip(path);
  if (formats::looks_like_safetensors(head)) return open_safetensors(path);
  if (has_hdf5_signature(file)) return open_hdf5_weights(path);
  SHOAL_CHECK(!head.starts_with(kOldTorchMagic), CheckpointError,
              "{} was written by a torch.save of before PyTorch 1.6, which cannot be read in parts: load it in Python "
              "and save it again",
              path.string());
  throw CheckpointError("{} is no file of weights: neither safetensors, HDF5 nor a file of torch.save, or damaged",
                        path.string());
}

WeightsFile::WeightsFile(fs::path path, WeightsContents contents)
    : path_(std::move(path)), contents_(std::move(contents)) {
  check_names(contents_, path_);
}

std::unique_ptr<WeightsFile> WeightsFile::open(const fs::path& path) {
  std::error_code error;
  const bool folder = fs::is_directory(path, error);
  // Before files are looked for: a checkpoint may have a model.h5, which is for others to look at.
  if (folder && (is_checkpoint(path) || !list_checkpoints(path).empty())) {
    const fs::path checkpoint = resolve_checkpoint(path);
    return std::make_unique<WeightsFile>(checkpoint, open_checkpoint_weights(checkpoint));
  }
  if (is_dcp_directory(path))
    return std::make_unique<WeightsFile>(path, model_weights(open_dcp(path, {.key = "", .weights_only = true})));
  if (is_deepspeed_folder(path))
    return std::make_unique<WeightsFile>(path, model_weights(open_deepspeed(path, {.key = "", .weights_only = true})));
  const fs::path file = folder ? find_in_folder(path) : path;
  const bool index = head_of(InputFile(file)).starts_with('{');
  return std::make_unique<WeightsFile>(file, index ? open_indexed(file) : open_single_file(file));
}

void WeightsFile::read(std::size_t tensor, std::int64_t begin, std::int64_t count, void* into) const {
  const std::int64_t numel = contents_.tensors.at(tensor).numel();
  SHOAL_ASSERT(begin >= 0 && count >= 0 && begin <= numel && count <= numel - begin);
  if (count > 0) contents_.read(tensor, begin, count, static_cast<std::byte*>(into));
}

}  // namespace shoal::checkpoint

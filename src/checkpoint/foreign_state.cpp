#include "checkpoint/foreign_state.h"

#include <algorithm>

#include "checkpoint/file_names.h"
#include "checkpoint/foreign_names.h"
#include "core/check.h"
#include "core/file_io.h"
#include "formats/zip_reader.h"

namespace shoal::checkpoint {
namespace fs = std::filesystem;
namespace {

bool is_zip(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return false;
  const InputFile file(path);
  std::string head(static_cast<std::size_t>(std::min<std::int64_t>(file.size(), 4)), '\0');
  file.read_at(0, head.data(), head.size());
  return formats::looks_like_zip(head);
}

ForeignState open_weights(const fs::path& path, const std::string& key) {
  SHOAL_CHECK(key.empty(), OptionError,
              "--key {}: {} has one dictionary alone; --key is for files of torch.save and directories of "
              "torch.distributed.checkpoint",
              key, path.string());
  const std::shared_ptr<WeightsFile> file = WeightsFile::open(path);
  ForeignState state;
  state.path = file->path();
  state.contents = {file->format(), file->tensors(), file->others(), file->notes(), {}};
  for (TensorSpec& spec : state.contents.tensors) spec.name = std::string(kModelPrefix) + unwrapped(spec.name);
  state.contents.read = [file](std::size_t tensor, std::int64_t begin, std::int64_t count, std::byte* into) {
    file->read(tensor, begin, count, into);
  };
  return state;
}

}  // namespace

bool ForeignState::has_optimizer() const {
  return std::any_of(contents.tensors.begin(), contents.tensors.end(),
                     [](const TensorSpec& spec) { return !is_model_tensor(spec.name); });
}

ForeignState open_foreign(const fs::path& path, const ForeignOptions& options) {
  ForeignState state = is_dcp_directory(path)      ? open_dcp(path, options)
                       : is_deepspeed_folder(path) ? open_deepspeed(path, options)
                       : is_zip(path)              ? open_torch_training(path, options)
                                                   : open_weights(path, options.key);
  strip_module_prefix(state);
  return state;
}

WeightsContents model_weights(ForeignState state) {
  std::vector<std::size_t> kept;
  for (std::size_t i = 0; i < state.contents.tensors.size(); ++i)
    if (is_model_tensor(state.contents.tensors[i].name)) kept.push_back(i);
  if (state.has_optimizer()) state.contents.notes.emplace_back("without its optimizer");
  keep_tensors(state, kept);
  for (TensorSpec& spec : state.contents.tensors) spec.name = parameter_name(spec.name);
  return std::move(state.contents);
}

}  // namespace shoal::checkpoint

// Weights of safetensors and torch.save: headers that say where plain bytes lie, which pread then fetches.
#include "checkpoint/stored_elements.h"
#include "checkpoint/weights_file.h"
#include "core/file_io.h"
#include "formats/safetensors.h"
#include "formats/torch_zip_reader.h"

namespace shoal::checkpoint {
namespace {

using formats::StoredTensor;

WeightsContents contents_of(std::string format, std::shared_ptr<InputFile> file, formats::StoredTensors stored) {
  WeightsContents contents{std::move(format), {}, std::move(stored.others), std::move(stored.notes), {}};
  for (const StoredTensor& tensor : stored.tensors) contents.tensors.push_back(tensor.spec);
  contents.read = [file = std::move(file), tensors = std::move(stored.tensors)](std::size_t tensor, std::int64_t begin,
                                                                                std::int64_t count, std::byte* into) {
    read_stored(*file, tensors[tensor], begin, count, into);
  };
  return contents;
}

}  // namespace

WeightsContents open_safetensors(const std::filesystem::path& path) {
  auto file = std::make_shared<InputFile>(path);
  auto stored = formats::read_safetensors_header(source_of(file, path));
  return contents_of("safetensors", std::move(file), std::move(stored));
}

WeightsContents open_torch_zip(const std::filesystem::path& path) {
  auto file = std::make_shared<InputFile>(path);
  auto stored = formats::read_torch_zip(source_of(file, path));
  return contents_of("torch.save", std::move(file), std::move(stored));
}

}  // namespace shoal::checkpoint

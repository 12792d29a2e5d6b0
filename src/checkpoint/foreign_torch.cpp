// Files of torch.save with a model's state dict, and with its optimizer's beside it.
#include <algorithm>
#include <array>

#include "checkpoint/file_names.h"
#include "checkpoint/foreign_names.h"
#include "checkpoint/saved_optimizer.h"
#include "checkpoint/stored_elements.h"
#include "checkpoint/weights_names.h"
#include "core/check.h"
#include "formats/torch_zip_reader.h"

namespace shoal::checkpoint {
namespace fs = std::filesystem;
namespace {

using formats::PickleNode;
using formats::StoredTensor;
using formats::TorchArchive;

constexpr std::array<std::string_view, 3> kOptimizers{"optimizer", "optimizer_state_dict", "optim"};

bool same_place(const StoredTensor& a, const StoredTensor& b) {
  return a.offset == b.offset && a.strides == b.strides && a.spec.shape == b.spec.shape &&
         a.spec.dtype == b.spec.dtype && a.spec.numel() > 0;
}

// Two names of one tensor: torch.save wrote its elements once.
void join_same(std::vector<StoredTensor>& tensors, ForeignState& state) {
  std::vector<StoredTensor> kept;
  std::map<std::uint64_t, std::size_t> at;  // the first tensor of an offset
  for (StoredTensor& tensor : tensors) {
    const auto [found, fresh] = at.try_emplace(tensor.offset, kept.size());
    if (!fresh && same_place(kept[found->second], tensor))
      state.aliases.emplace_back(tensor.spec.name, kept[found->second].spec.name);
    else
      kept.push_back(std::move(tensor));
  }
  tensors = std::move(kept);
}

const PickleNode* optimizer_of(const TorchArchive& archive) {
  for (const std::string_view name : kOptimizers) {
    const PickleNode* found = archive.find(archive.root(), name);
    if (found != nullptr && archive.find(*found, "state") != nullptr) return found;
  }
  return nullptr;
}

}  // namespace

ForeignState open_torch_training(const fs::path& path, const ForeignOptions& options) {
  auto file = std::make_shared<InputFile>(path);
  TorchArchive archive(source_of(file, path), is_training_global);
  ForeignState state;
  state.path = path;
  formats::StoredTensors found;
  const PickleNode& dictionary = formats::find_state_dict(archive, options.key, found);
  formats::StoredTensors stored = formats::tensors_of(archive, dictionary);
  for (StoredTensor& tensor : stored.tensors)
    tensor.spec.name = std::string(kModelPrefix) + unwrapped(tensor.spec.name);
  join_same(stored.tensors, state);
  const PickleNode* optimizer = options.weights_only ? nullptr : optimizer_of(archive);
  if (optimizer != nullptr && &dictionary != &archive.root()) {
    OptimizerFacts facts;
    std::vector<StoredTensor> moments = read_saved_optimizer(archive, *optimizer, stored.tensors, facts);
    for (StoredTensor& moment : moments) stored.tensors.push_back(std::move(moment));
    for (const StoredTensor& tensor : stored.tensors) state.contents.tensors.push_back(tensor.spec);
    facts.finish(state);
  } else {
    for (const StoredTensor& tensor : stored.tensors) state.contents.tensors.push_back(tensor.spec);
  }
  state.contents.format = "torch.save";
  state.contents.others = std::move(stored.others);
  state.contents.notes = std::move(found.notes);
  state.contents.read = [file, tensors = std::move(stored.tensors)](std::size_t tensor, std::int64_t begin,
                                                                    std::int64_t count, std::byte* into) {
    read_stored(*file, tensors[tensor], begin, count, into);
  };
  return state;
}

}  // namespace shoal::checkpoint

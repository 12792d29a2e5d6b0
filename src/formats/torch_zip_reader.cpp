#include "formats/torch_zip_reader.h"

#include <array>

#include "core/check.h"

namespace shoal::formats {
namespace {

using Kind = PickleNode::Kind;

constexpr std::array<std::string_view, 4> kStateKeys{"state_dict", "model_state_dict", "model", "module"};

// Keys may have dots of their own: the longest that is there is taken.
const PickleNode* follow(const TorchArchive& archive, const PickleNode& from, std::string_view key) {
  const PickleNode* node = &from;
  while (!key.empty()) {
    std::size_t end = key.size();
    const PickleNode* next = archive.find(*node, key);
    while (next == nullptr && end != std::string_view::npos && end > 0) {
      end = key.rfind('.', end - 1);
      if (end != std::string_view::npos) next = archive.find(*node, key.substr(0, end));
    }
    if (next == nullptr) return nullptr;
    node = next;
    key.remove_prefix(std::min(end + 1, key.size()));
  }
  return node;
}

std::string keys_of(const TorchArchive& archive, const PickleNode& node) {
  constexpr std::size_t kShown = 10;
  std::string names;
  for (std::size_t i = 0; i < std::min(kShown, node.entries.size()); ++i)
    names += fmt::format("{}'{}'", i == 0 ? "" : ", ", TorchArchive::name_of_key(archive.at(node.entries[i].first)));
  return names + (node.entries.size() > kShown ? ", …" : "");
}

}  // namespace

const PickleNode& find_state_dict(const TorchArchive& archive, const std::string& key, StoredTensors& stored) {
  const PickleNode& root = archive.root();
  SHOAL_CHECK(archive.is_dictionary(root), CheckpointError, "{} holds no dictionary: save model.state_dict()",
              archive.path());
  if (!key.empty()) {
    const PickleNode* found = follow(archive, root, key);
    SHOAL_CHECK(found != nullptr && archive.is_dictionary(*found), CheckpointError,
                "{} has no dictionary '{}' (--key); it has {}", archive.path(), key, keys_of(archive, root));
    return *found;
  }
  if (archive.has_tensors(root)) return root;
  for (const std::string_view wanted : kStateKeys) {
    const PickleNode* found = archive.find(root, wanted);
    if (found == nullptr || !archive.has_tensors(*found)) continue;
    stored.notes.push_back(fmt::format("the weights are those under '{}'", wanted));
    return *found;
  }
  return root;
}

StoredTensors tensors_of(TorchArchive& archive, const PickleNode& dictionary) {
  StoredTensors stored;
  for (const auto& [key, value] : dictionary.entries) {
    const std::string name = TorchArchive::name_of_key(archive.at(key));
    const PickleNode* call = archive.as_tensor(archive.at(value));
    std::string reason = "is no tensor";
    std::optional<StoredTensor> tensor;
    if (call != nullptr) tensor = archive.place(*call, name, reason);
    if (tensor)
      stored.tensors.push_back(std::move(*tensor));
    else
      stored.others.push_back({name, reason});
  }
  return stored;
}

StoredTensors read_torch_zip(const ByteSource& file, const std::string& key) {
  TorchArchive archive(file);
  StoredTensors notes;
  StoredTensors stored = tensors_of(archive, find_state_dict(archive, key, notes));
  stored.notes = std::move(notes.notes);
  return stored;
}

}  // namespace shoal::formats

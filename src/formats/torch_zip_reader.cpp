#include "formats/torch_zip_reader.h"

#include <algorithm>
#include <array>
#include <map>

#include "core/check.h"
#include "formats/pickle_reader.h"
#include "formats/zip_reader.h"

namespace shoal::formats {
namespace {

using Kind = PickleNode::Kind;

constexpr std::uint64_t kMostPickleBytes = 64 << 20;
constexpr std::string_view kPickleName = "data.pkl", kPickleEnd = "/data.pkl";
constexpr std::string_view kDictionary = "collections.OrderedDict", kTensor = "torch._utils._rebuild_tensor_v2",
                           kParameter = "torch._utils._rebuild_parameter";
constexpr std::array<std::string_view, 3> kStateKeys{"state_dict", "model_state_dict", "model"};

struct StorageClass {
  std::string_view global;
  DType dtype;
};
constexpr std::array<StorageClass, 10> kStorages{{{"torch.DoubleStorage", DType::float64},
                                                  {"torch.FloatStorage", DType::float32},
                                                  {"torch.HalfStorage", DType::float16},
                                                  {"torch.BFloat16Storage", DType::bfloat16},
                                                  {"torch.LongStorage", DType::int64},
                                                  {"torch.IntStorage", DType::int32},
                                                  {"torch.ShortStorage", DType::int16},
                                                  {"torch.CharStorage", DType::int8},
                                                  {"torch.ByteStorage", DType::uint8},
                                                  {"torch.BoolStorage", DType::boolean}}};

bool is_storage(std::string_view global) { return global.starts_with("torch.") && global.ends_with("Storage"); }

bool is_allowed(std::string_view global) {
  return global == kDictionary || global == kTensor || global == kParameter || is_storage(global);
}

// The folder inside of the archive, with the slash.
std::string root_of(const ZipReader& zip, const std::string& path) {
  std::vector<std::string> roots;
  for (const auto& [name, entry] : zip.entries())
    if (name == kPickleName || name.ends_with(kPickleEnd))
      roots.push_back(name.substr(0, name.size() - kPickleName.size()));
  SHOAL_CHECK(roots.size() == 1, CheckpointError, "{} is a ZIP archive, but none that torch.save wrote: it has {} '{}'",
              path, roots.size(), kPickleName);
  SHOAL_CHECK(!zip.contains(roots[0] + "constants.pkl"), CheckpointError,
              "{} is a TorchScript module, no state dict: give it to --model-script, or save model.state_dict()", path);
  return roots[0];
}

class StateDictReader {
 public:
  explicit StateDictReader(const ByteSource& file) : path_(file.path), zip_(file), root_(root_of(zip_, file.path)) {
    const std::string order = root_ + "byteorder";
    SHOAL_CHECK(!zip_.contains(order) || zip_.read(order, 16) == "little", CheckpointError,
                "{} was saved on a big-endian machine", path_);
    const std::string name = root_ + std::string(kPickleName);
    pickle_ = read_pickle(zip_.read(name, kMostPickleBytes), path_ + ": " + name, is_allowed);
  }

  StoredTensors read() {
    StoredTensors stored;
    for (const auto& [key, value] : state_dict(stored).entries) {
      const std::string name = name_of_key(pickle_.at(key));
      const PickleNode* tensor = as_tensor(pickle_.at(value));
      if (tensor == nullptr)
        stored.others.push_back({name, "is no tensor"});
      else
        add(name, *tensor, stored);
    }
    return stored;
  }

 private:
  const std::string& callee(const PickleNode& node) const { return pickle_.at(node.items[0]).text; }
  const std::vector<PickleRef>& arguments(const PickleNode& node) const { return pickle_.at(node.items[1]).items; }
  bool calls(const PickleNode& node, std::string_view global) const {
    return node.kind == Kind::call && callee(node) == global;
  }
  bool is_dictionary(const PickleNode& node) const { return node.kind == Kind::dictionary || calls(node, kDictionary); }

  // The call that makes the tensor, also where a Parameter is around it.
  const PickleNode* as_tensor(const PickleNode& node) const {
    const bool wrapped = calls(node, kParameter) && !arguments(node).empty();
    const PickleNode& inner = wrapped ? pickle_.at(arguments(node)[0]) : node;
    return calls(inner, kTensor) ? &inner : nullptr;
  }

  bool has_tensors(const PickleNode& node) const {
    return is_dictionary(node) && std::any_of(node.entries.begin(), node.entries.end(), [&](const auto& entry) {
             return as_tensor(pickle_.at(entry.second)) != nullptr;
           });
  }

  // The dictionary itself, or the one in it that holds the model's tensors.
  const PickleNode& state_dict(StoredTensors& stored) const {
    const PickleNode& root = pickle_.at(pickle_.root);
    SHOAL_CHECK(is_dictionary(root), CheckpointError, "{} holds no dictionary: save model.state_dict()", path_);
    if (has_tensors(root)) return root;
    for (const std::string_view wanted : kStateKeys)
      for (const auto& [key, value] : root.entries)
        if (pickle_.at(key).kind == Kind::text && pickle_.at(key).text == wanted && has_tensors(pickle_.at(value))) {
          stored.notes.push_back(fmt::format("the weights are those under '{}'", wanted));
          return pickle_.at(value);
        }
    return root;
  }

  static std::string name_of_key(const PickleNode& key) {
    return key.kind == Kind::text ? key.text : fmt::format("(key {})", key.integer);
  }

  [[noreturn]] void fail(const std::string& name, const std::string& what) const {
    throw CheckpointError("{}: tensor '{}' {}: the file is damaged", path_, name, what);
  }

  std::int64_t integer(PickleRef ref, const std::string& name) const {
    const PickleNode& node = pickle_.at(ref);
    if (node.kind != Kind::integer || node.integer < 0) fail(name, "has a size, offset or stride that cannot be");
    return node.integer;
  }

  std::vector<std::int64_t> integers(PickleRef ref, const std::string& name) const {
    std::vector<std::int64_t> values;
    if (pickle_.at(ref).kind != Kind::tuple) fail(name, "has no shape or no strides");
    for (const PickleRef item : pickle_.at(ref).items) values.push_back(integer(item, name));
    return values;
  }

  struct Storage {
    std::string global;
    ZipReader::Place place;
  };

  // ('storage', class, key, device, elements)
  Storage storage(PickleRef ref, const std::string& name) {
    const PickleNode& persistent = pickle_.at(ref);
    if (persistent.kind != Kind::persistent) fail(name, "has no storage");
    const std::vector<PickleRef>& id = pickle_.at(persistent.items[0]).items;
    if (id.size() != 5 || pickle_.at(id[0]).text != "storage" || !is_storage(pickle_.at(id[1]).text))
      fail(name, "has no storage");
    const std::string& key = pickle_.at(id[2]).text;
    const auto [found, fresh] = places_.try_emplace(key);
    if (fresh) found->second = zip_.place(root_ + "data/" + key);
    return {pickle_.at(id[1]).text, found->second};
  }

  // (storage, offset, shape, strides, …)
  void add(const std::string& name, const PickleNode& call, StoredTensors& stored) {
    const std::vector<PickleRef>& items = arguments(call);
    if (items.size() < 4) fail(name, "lacks its shape");
    const Storage source = storage(items[0], name);
    const auto known = std::find_if(kStorages.begin(), kStorages.end(),
                                    [&](const StorageClass& entry) { return entry.global == source.global; });
    if (known == kStorages.end()) {
      stored.others.push_back({name, "is in a " + source.global});
      return;
    }
    StoredTensor tensor{{name, known->dtype, integers(items[2], name)}, 0, integers(items[3], name)};
    place(tensor, integer(items[1], name), source.place);
    stored.tensors.push_back(std::move(tensor));
  }

  // `first`: the element of the storage that is the tensor's first.
  void place(StoredTensor& tensor, std::int64_t first, const ZipReader::Place& storage) const {
    const auto& [name, dtype, shape] = tensor.spec;
    const std::optional<std::int64_t> bytes = bytes_of(dtype, shape);
    if (!bytes || tensor.strides.size() != shape.size()) fail(name, "has an impossible shape");
    if (*bytes == 0) {
      tensor.strides.clear();
      return;
    }
    const auto room = static_cast<std::int64_t>(storage.bytes) / size_of(dtype);
    std::int64_t last = first;
    std::int64_t dense = 1;  // the stride that a row-major tensor would have
    bool row_major = true;
    for (std::size_t i = shape.size(); i-- > 0;) {
      if (shape[i] > 1 && tensor.strides[i] > (INT64_MAX - last) / (shape[i] - 1)) fail(name, "leaves its storage");
      last += (shape[i] - 1) * tensor.strides[i];
      row_major = row_major && (shape[i] == 1 || tensor.strides[i] == dense);
      dense *= shape[i];
    }
    if (last >= room) fail(name, fmt::format("ends at element {} of a storage of {}", last, room));
    if (row_major) tensor.strides.clear();
    tensor.offset = storage.offset + static_cast<std::uint64_t>(first * size_of(dtype));
  }

  const std::string& path_;
  ZipReader zip_;
  std::string root_;
  Pickle pickle_;
  std::map<std::string, ZipReader::Place> places_;  // of the storages
};

}  // namespace

StoredTensors read_torch_zip(const ByteSource& file) { return StateDictReader(file).read(); }

}  // namespace shoal::formats

#include "formats/torch_archive.h"

#include <algorithm>
#include <array>

#include "core/check.h"

namespace shoal::formats {
namespace {

using Kind = PickleNode::Kind;

constexpr std::uint64_t kMostPickleBytes = 64 << 20;
constexpr std::int64_t kMostRepeated = 1 << 30;  // bytes of a view that is larger than its storage
constexpr std::string_view kPickleName = "data.pkl", kPickleEnd = "/data.pkl";
constexpr std::string_view kDictionary = "collections.OrderedDict", kTensor = "torch._utils._rebuild_tensor_v2",
                           kNewTensor = "torch._utils._rebuild_tensor_v3",
                           kParameter = "torch._utils._rebuild_parameter", kSize = "torch.Size",
                           kTyped = "torch._tensor._rebuild_from_type_v2", kTensorClass = "torch.Tensor",
                           kParameterClass = "torch.nn.parameter.Parameter";
constexpr std::array<std::string_view, 8> kPlain{kDictionary, kTensor, kNewTensor,   kParameter,
                                                 kSize,       kTyped,  kTensorClass, kParameterClass};

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

// Of tensors whose storage has no type of its own, by PyTorch's name of their element type.
constexpr std::array<StorageClass, 2> kNewTypes{
    {{"torch.float8_e4m3fn", DType::float8_e4m3fn}, {"torch.float8_e5m2", DType::float8_e5m2}}};

std::optional<DType> dtype_of(std::string_view global) {
  for (const auto& [name, dtype] : kStorages)
    if (name == global) return dtype;
  for (const auto& [name, dtype] : kNewTypes)
    if (name == global) return dtype;
  return std::nullopt;
}

bool is_storage(std::string_view global) { return global.starts_with("torch.") && global.ends_with("Storage"); }

// Element types are values: "torch.float32", "torch.float8_e4m3fn", "torch.uint16", …
bool is_dtype(std::string_view global) {
  constexpr std::array<std::string_view, 8> kBegin{"torch.float", "torch.bfloat", "torch.int",     "torch.uint",
                                                   "torch.half",  "torch.double", "torch.complex", "torch.bool"};
  return global.find('.', 6) == std::string_view::npos &&
         std::any_of(kBegin.begin(), kBegin.end(), [&](std::string_view b) { return global.starts_with(b); });
}

bool is_allowed(std::string_view global) {
  return std::find(kPlain.begin(), kPlain.end(), global) != kPlain.end() || is_storage(global) || is_dtype(global);
}

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

}  // namespace

TorchArchive::TorchArchive(ByteSource file, const std::function<bool(std::string_view)>& also)
    : file_(std::move(file)), zip_(file_), root_(root_of(zip_, file_.path)) {
  const std::string order = root_ + "byteorder";
  SHOAL_CHECK(!zip_.contains(order) || zip_.read(order, 16) == "little", CheckpointError,
              "{} was saved on a big-endian machine", path());
  const std::string name = root_ + std::string(kPickleName);
  pickle_ = read_pickle(zip_.read(name, kMostPickleBytes), path() + ": " + name,
                        [&](std::string_view global) { return is_allowed(global) || (also && also(global)); });
}

bool TorchArchive::calls(const PickleNode& node, std::string_view global) const {
  return node.kind == Kind::call && callee(node) == global;
}

bool TorchArchive::is_dictionary(const PickleNode& node) const {
  return node.kind == Kind::dictionary || calls(node, kDictionary);
}

const PickleNode* TorchArchive::find(const PickleNode& node, std::string_view key) const {
  if (!is_dictionary(node)) return nullptr;
  for (const auto& [name, value] : node.entries)
    if (at(name).kind == Kind::text && at(name).text == key) return &at(value);
  return nullptr;
}

std::string TorchArchive::name_of_key(const PickleNode& key) {
  return key.kind == Kind::text ? key.text : fmt::format("(key {})", key.integer);
}

const PickleNode* TorchArchive::as_tensor(const PickleNode& node) const {
  const bool wrapped = calls(node, kParameter) && !arguments(node).empty();
  const PickleNode& inner = wrapped ? at(arguments(node)[0]) : node;
  if (calls(inner, kTensor) || calls(inner, kNewTensor)) return &inner;
  // (function, class, arguments, attributes): a tensor that somebody has given attributes.
  const bool typed = calls(inner, kTyped) && arguments(inner).size() == 4;
  return typed && at(arguments(inner)[0]).text == kTensor && at(arguments(inner)[2]).kind == Kind::tuple ? &inner
                                                                                                         : nullptr;
}

const std::vector<PickleRef>& TorchArchive::tensor_arguments(const PickleNode& call) const {
  return calls(call, kTyped) ? at(arguments(call)[2]).items : arguments(call);
}

bool TorchArchive::has_tensors(const PickleNode& node) const {
  return is_dictionary(node) && std::any_of(node.entries.begin(), node.entries.end(),
                                            [&](const auto& entry) { return as_tensor(at(entry.second)) != nullptr; });
}

void TorchArchive::fail(const std::string& name, const std::string& what) const {
  throw CheckpointError("{}: tensor '{}' {}: the file is damaged", path(), name, what);
}

std::int64_t TorchArchive::integer(PickleRef ref, const std::string& name) const {
  const PickleNode& node = at(ref);
  if (node.kind != Kind::integer || node.integer < 0) fail(name, "has a size, offset or stride that cannot be");
  return node.integer;
}

std::vector<std::int64_t> TorchArchive::integers(const PickleNode& node, const std::string& name) const {
  const bool size = calls(node, kSize) && arguments(node).size() == 1;
  const PickleNode& list = size ? at(arguments(node)[0]) : node;
  if (list.kind != Kind::tuple && list.kind != Kind::list) fail(name, "has no shape or no strides");
  std::vector<std::int64_t> values;
  for (const PickleRef item : list.items) values.push_back(integer(item, name));
  return values;
}

// ('storage', class, key, device, elements)
TorchArchive::Storage TorchArchive::storage(PickleRef ref, const std::string& name) {
  const PickleNode& persistent = at(ref);
  if (persistent.kind != Kind::persistent) fail(name, "has no storage");
  const std::vector<PickleRef>& id = at(persistent.items[0]).items;
  if (id.size() != 5 || at(id[0]).text != "storage" || !is_storage(at(id[1]).text)) fail(name, "has no storage");
  const std::string& key = at(id[2]).text;
  const auto [found, fresh] = places_.try_emplace(key);
  if (fresh) found->second = zip_.place(root_ + "data/" + key);
  return {at(id[1]).text, found->second};
}

// (storage, offset, shape, strides, …)
std::optional<StoredTensor> TorchArchive::place(const PickleNode& call, const std::string& name, std::string& reason) {
  const std::vector<PickleRef>& items = tensor_arguments(call);
  if (items.size() < 4) fail(name, "lacks its shape");
  const Storage source = storage(items[0], name);
  const bool typed = calls(call, kNewTensor) && items.size() > 6;  // of the third form with its element type at the end
  const std::string& type = typed ? at(items[6]).text : source.global;
  const std::optional<DType> dtype = dtype_of(type);
  if (!dtype) {
    reason = (typed ? "has the element type " : "is in a ") + type;
    return std::nullopt;
  }
  StoredTensor tensor{{name, *dtype, integers(at(items[2]), name)}, 0, integers(at(items[3]), name)};
  place_elements(tensor, integer(items[1], name), source.place);
  return tensor;
}

std::optional<double> TorchArchive::number(const PickleNode& node) {
  if (node.kind == Kind::real) return node.real;
  if (node.kind == Kind::integer || node.kind == Kind::boolean) return static_cast<double>(node.integer);
  const PickleNode* call = as_tensor(node);
  std::string reason;
  const std::optional<StoredTensor> tensor = call == nullptr ? std::nullopt : place(*call, "a number", reason);
  if (!tensor || tensor->spec.numel() != 1) return std::nullopt;
  const auto value = [&](auto typed) {
    file_.read_at(tensor->offset, &typed, sizeof typed);
    return static_cast<double>(typed);
  };
  switch (tensor->spec.dtype) {
    case DType::float64: return value(double{});
    case DType::float32: return value(float{});
    case DType::int64: return value(std::int64_t{});
    default: return std::nullopt;
  }
}

// `first`: the element of the storage that is the tensor's first.
void TorchArchive::place_elements(StoredTensor& tensor, std::int64_t first, const ZipReader::Place& storage) const {
  const auto& [name, dtype, shape] = tensor.spec;
  const std::optional<std::int64_t> bytes = bytes_of(dtype, shape);
  if (!bytes || tensor.strides.size() != shape.size()) fail(name, "has an impossible shape");
  if (*bytes == 0) {
    tensor.strides.clear();
    return;
  }
  if (*bytes > kMostRepeated && static_cast<std::uint64_t>(*bytes) > storage.bytes)
    throw CheckpointError("{}: tensor '{}' of {} bytes repeats a storage of {}: save a copy of it (.contiguous())",
                          path(), name, *bytes, storage.bytes);
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

}  // namespace shoal::formats

#include "formats/torch_zip.h"

#include <functional>
#include <numeric>
#include <utility>

#include "core/check.h"
#include "formats/pickle.h"

namespace shoal::formats {
namespace {

constexpr const char* kRoot = "archive/";

// As a global of Python: module and name.
std::pair<const char*, const char*> storage_class(DType dtype) {
  switch (dtype) {
    case DType::float64: return {"torch", "DoubleStorage"};
    case DType::float32: return {"torch", "FloatStorage"};
    case DType::float16: return {"torch", "HalfStorage"};
    case DType::bfloat16: return {"torch", "BFloat16Storage"};
    case DType::int64: return {"torch", "LongStorage"};
    case DType::int32: return {"torch", "IntStorage"};
    case DType::int16: return {"torch", "ShortStorage"};
    case DType::int8: return {"torch", "CharStorage"};
    case DType::uint8: return {"torch", "ByteStorage"};
    case DType::boolean: return {"torch", "BoolStorage"};
    case DType::float8_e4m3fn:
    case DType::float8_e5m2: return {"torch.storage", "UntypedStorage"};
  }
  throw InternalError("element type {} has no storage class", static_cast<int>(dtype));
}

std::int64_t numel_of(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

// As PyTorch counts them for a contiguous tensor, empty ones included.
std::vector<std::int64_t> contiguous_strides(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> strides(shape.size());
  std::int64_t stride = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= std::max<std::int64_t>(shape[i], 1);
  }
  return strides;
}

// torch._utils._rebuild_tensor_v2(storage, offset, shape, strides, requires_grad, backward_hooks), or version 3 with
// the element type behind it where there is no class of storages of that type.
void write_tensor(PickleWriter& pickle, std::size_t key, const TorchStorage& storage) {
  const auto [module, storage_name] = storage_class(storage.dtype);
  pickle.global("torch._utils", is_float8(storage.dtype) ? "_rebuild_tensor_v3" : "_rebuild_tensor_v2");
  pickle.mark();
  pickle.mark();
  pickle.string("storage");
  pickle.global(module, storage_name);
  pickle.string(std::to_string(key));
  pickle.string("cpu");
  pickle.integer(numel_of(storage.shape));
  pickle.tuple_from_mark();
  pickle.persistent_id();
  pickle.integer(0);
  pickle.integers(storage.shape);
  pickle.integers(contiguous_strides(storage.shape));
  pickle.boolean(false);
  pickle.global("collections", "OrderedDict");
  pickle.empty_tuple();
  pickle.reduce();
  if (is_float8(storage.dtype)) pickle.global("torch", name_of(storage.dtype));
  pickle.tuple_from_mark();
  pickle.reduce();
}

class ValueWriter {
 public:
  explicit ValueWriter(const std::vector<TorchStorage>& storages) : storages_(&storages) {}

  void write(const TorchValue& value) { std::visit(*this, value.value); }
  std::string finish() { return pickle_.finish(); }

  void operator()(std::monostate) { pickle_.none(); }
  void operator()(bool value) { pickle_.boolean(value); }
  void operator()(std::int64_t value) { pickle_.integer(value); }
  void operator()(double value) { pickle_.real(value); }
  void operator()(const std::string& value) { pickle_.string(value); }
  void operator()(const TorchValue::Tensor& tensor) {
    write_tensor(pickle_, tensor.storage, storages_->at(tensor.storage));
  }
  void operator()(const TorchValue::Tuple& tuple) {
    pickle_.mark();
    for (const double value : tuple.values) pickle_.real(value);
    pickle_.tuple_from_mark();
  }
  void operator()(const TorchValue::List& list) {
    pickle_.empty_list();
    pickle_.mark();
    for (const TorchValue& value : list) write(value);
    pickle_.append_items();
  }
  void operator()(const TorchValue::Dict& dict) {
    if (dict.ordered_dict) {
      pickle_.global("collections", "OrderedDict");
      pickle_.empty_tuple();
      pickle_.reduce();
    } else {
      pickle_.empty_dict();
    }
    pickle_.mark();
    for (const auto& [key, value] : dict.items) {
      write(key);
      write(value);
    }
    pickle_.set_items();
  }

 private:
  const std::vector<TorchStorage>* storages_;
  PickleWriter pickle_;
};

std::string pickle_of(const TorchValue& value, const std::vector<TorchStorage>& storages) {
  ValueWriter writer(storages);
  writer.write(value);
  return writer.finish();
}

}  // namespace

TorchValue::TorchValue() = default;
TorchValue::TorchValue(Any any) : value(std::move(any)) {}
TorchValue::TorchValue(const TorchValue&) = default;
TorchValue::TorchValue(TorchValue&&) noexcept = default;
TorchValue::~TorchValue() = default;

void TorchValue::Dict::add(TorchValue key, TorchValue value) { items.emplace_back(std::move(key), std::move(value)); }

TorchValue state_dict_of(const std::vector<TorchTensor>& tensors) {
  TorchValue::Dict dict{{}, true};
  for (const TorchTensor& tensor : tensors) dict.add({tensor.name}, {TorchValue::Tensor{tensor.storage}});
  return {std::move(dict)};
}

TorchZip::TorchZip(const TorchValue& value, const std::vector<TorchStorage>& storages) {
  add_small("data.pkl", pickle_of(value, storages));
  add_small("byteorder", "little");
  add_small("version", "3\n");
  for (std::size_t i = 0; i < storages.size(); ++i) {
    const auto bytes = static_cast<std::uint64_t>(numel_of(storages[i].shape) * size_of(storages[i].dtype));
    const std::string name = fmt::format("data/{}", i), &contents = storages[i].contents;
    SHOAL_ASSERT(contents.empty() || contents.size() == bytes);
    const std::size_t entry = contents.empty() ? layout_.add(kRoot + name, bytes) : add_small(name, contents);
    if (i == 0) first_storage_ = entry;
  }
}

std::size_t TorchZip::add_small(const std::string& name, std::string contents) {
  const std::size_t entry = layout_.add(kRoot + name, contents.size());
  layout_.note_piece(entry, 0, contents.data(), contents.size());
  small_.emplace_back(layout_.data_offset(entry), std::move(contents));
  return entry;
}

std::vector<std::pair<std::uint64_t, std::string>> TorchZip::records() const {
  auto records = layout_.records();
  records.insert(records.end(), small_.begin(), small_.end());
  return records;
}

}  // namespace shoal::formats

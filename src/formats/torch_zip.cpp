#include "formats/torch_zip.h"

#include <functional>
#include <numeric>

#include "core/check.h"
#include "formats/pickle.h"

namespace shoal::formats {
namespace {

constexpr const char* kRoot = "archive/";

const char* storage_class(DType dtype) {
  switch (dtype) {
    case DType::float64: return "DoubleStorage";
    case DType::float32: return "FloatStorage";
    case DType::float16: return "HalfStorage";
    case DType::bfloat16: return "BFloat16Storage";
    case DType::int64: return "LongStorage";
    case DType::int32: return "IntStorage";
    case DType::int16: return "ShortStorage";
    case DType::int8: return "CharStorage";
    case DType::uint8: return "ByteStorage";
    case DType::boolean: return "BoolStorage";
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

// torch._utils._rebuild_tensor_v2(storage, offset, shape, strides, requires_grad, backward_hooks)
void write_tensor(PickleWriter& pickle, std::size_t key, const TorchStorage& storage) {
  pickle.global("torch._utils", "_rebuild_tensor_v2");
  pickle.mark();
  pickle.mark();
  pickle.string("storage");
  pickle.global("torch", storage_class(storage.dtype));
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
  pickle.tuple_from_mark();
  pickle.reduce();
}

std::string state_dict_pickle(const std::vector<TorchTensor>& tensors, const std::vector<TorchStorage>& storages) {
  PickleWriter pickle;
  pickle.global("collections", "OrderedDict");
  pickle.empty_tuple();
  pickle.reduce();
  pickle.mark();
  for (const TorchTensor& tensor : tensors) {
    pickle.string(tensor.name);
    write_tensor(pickle, tensor.storage, storages.at(tensor.storage));
  }
  pickle.set_items();
  return pickle.finish();
}

}  // namespace

TorchZip::TorchZip(const std::vector<TorchTensor>& tensors, const std::vector<TorchStorage>& storages) {
  add_small("data.pkl", state_dict_pickle(tensors, storages));
  add_small("byteorder", "little");
  add_small("version", "3\n");
  for (std::size_t i = 0; i < storages.size(); ++i) {
    const std::int64_t bytes = numel_of(storages[i].shape) * size_of(storages[i].dtype);
    const std::size_t entry = layout_.add(kRoot + fmt::format("data/{}", i), static_cast<std::uint64_t>(bytes));
    if (i == 0) first_storage_ = entry;
  }
}

void TorchZip::add_small(const std::string& name, std::string contents) {
  const std::size_t entry = layout_.add(kRoot + name, contents.size());
  layout_.note_piece(entry, 0, contents.data(), contents.size());
  small_.emplace_back(layout_.data_offset(entry), std::move(contents));
}

std::vector<std::pair<std::uint64_t, std::string>> TorchZip::records() const {
  auto records = layout_.records();
  records.insert(records.end(), small_.begin(), small_.end());
  return records;
}

}  // namespace shoal::formats

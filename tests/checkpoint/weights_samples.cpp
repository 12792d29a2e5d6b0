#include "checkpoint/weights_samples.h"

#include <cstring>
#include <mutex>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "comm/fake_process_group.h"
#include "formats/torch_zip.h"
#include "hdf5/attribute.h"
#include "hdf5/dataset.h"
#include "hdf5/datatype.h"

namespace shoal::testing {
namespace {

std::string safetensors_type(DType dtype) {
  switch (dtype) {
    case DType::float64: return "F64";
    case DType::float32: return "F32";
    case DType::float16: return "F16";
    case DType::bfloat16: return "BF16";
    case DType::int64: return "I64";
    case DType::int32: return "I32";
    case DType::int16: return "I16";
    case DType::int8: return "I8";
    case DType::float8_e4m3fn: return "F8_E4M3";
    case DType::float8_e5m2: return "F8_E5M2";
    case DType::uint8: return "U8";
    case DType::boolean: return "BOOL";
  }
  throw std::logic_error("no such type");
}

StateDict blank(const std::vector<TensorSpec>& model, const std::vector<std::pair<std::string, std::string>>& aliases,
                int rank, int ranks) {
  std::vector<SampleTensor> tensors;
  for (const TensorSpec& spec : model)  // integers as buffers are: whole on every rank
    tensors.push_back({"model/" + spec.name, spec.dtype, spec.shape, is_floating(spec.dtype) ? "unit" : ""});
  StateDict state = blank_state(tensors, rank, ranks);
  state.aliases.clear();
  for (const auto& [alias, name] : aliases) state.aliases.emplace_back("model/" + alias, "model/" + name);
  return state;
}

}  // namespace

FileTensor file_tensor(const std::string& name, DType dtype, const std::vector<std::int64_t>& shape, int salt) {
  const std::string full = "model/" + name;
  StateDict state = sample_state({{full, dtype, shape, ""}}, 0, 1, salt);
  const Region& region = state.tensors[0].region;
  const auto bytes = static_cast<std::size_t>(region.count * size_of(dtype));
  return {{name, dtype, shape}, std::string(reinterpret_cast<const char*>(region.data), bytes)};
}

std::string safetensors_bytes(const std::vector<FileTensor>& tensors) {
  nlohmann::json header = nlohmann::json::object();
  std::string data;
  for (const auto& [spec, bytes] : tensors) {
    const std::size_t begin = data.size();
    data += bytes;
    header[spec.name] = {
        {"dtype", safetensors_type(spec.dtype)}, {"shape", spec.shape}, {"data_offsets", {begin, data.size()}}};
  }
  const std::string text = header.dump();
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>(text.size() >> (8 * i));
  return file + text + data;
}

std::string torch_zip_bytes(const std::vector<FileTensor>& tensors) {
  std::vector<formats::TorchTensor> names;
  std::vector<formats::TorchStorage> storages;
  for (const auto& [spec, bytes] : tensors) {
    names.push_back({spec.name, storages.size()});
    storages.push_back({spec.dtype, spec.shape});
  }
  formats::TorchZip zip(names, storages);
  std::string file(zip.total_bytes(), '\0');
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::string& bytes = tensors[i].bytes;
    zip.note_piece(i, 0, bytes.data(), bytes.size());
    file.replace(zip.storage_offset(i), bytes.size(), bytes);
  }
  for (const auto& [offset, bytes] : zip.records()) file.replace(offset, bytes.size(), bytes);
  return file;
}

std::string hdf5_bytes(const std::vector<FileTensor>& tensors) {
  hdf5::File file = hdf5::File::create_in_memory("sample");
  hdf5::write_attribute(file, "format", std::string("shoal-consolidated"));
  std::vector<std::int64_t> offsets;
  for (const auto& [spec, bytes] : tensors)
    offsets.push_back(
        hdf5::create_contiguous(file, "/" + spec.name, hdf5::file_type(spec.dtype).get(), spec.shape).file_offset);
  std::string contents;
  const std::int64_t size = file.close_into([&](std::int64_t offset, const void* data, std::size_t bytes) {
    contents.resize(std::max(contents.size(), static_cast<std::size_t>(offset) + bytes));
    std::memcpy(contents.data() + offset, data, bytes);
  });
  contents.resize(static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (!tensors[i].bytes.empty())
      contents.replace(static_cast<std::size_t>(offsets[i]), tensors[i].bytes.size(), tensors[i].bytes);
  return contents;
}

Loaded load_on_ranks(const std::filesystem::path& source, const std::vector<TensorSpec>& model, int ranks,
                     bool rank0_reads, const std::vector<std::pair<std::string, std::string>>& aliases) {
  Loaded loaded;
  std::mutex mutex;
  std::vector<std::int64_t> held(model.size(), 0);
  for (const TensorSpec& spec : model)
    loaded.tensors.emplace_back(static_cast<std::size_t>(spec.numel() * size_of(spec.dtype)), '\0');
  comm::FakeWorld(ranks).run([&](comm::ProcessGroup& world) {
    StateDict state = blank(model, aliases, world.rank(), ranks);
    const auto report = checkpoint::load_weights(world, source, state, {rank0_reads});
    const std::lock_guard lock(mutex);
    if (world.rank() == 0) loaded.report = report;
    for (std::size_t i = 0; i < model.size(); ++i) {
      const Region& region = state.tensors[i].region;
      const std::int64_t element = size_of(model[i].dtype);
      if (region.count == 0) continue;
      std::memcpy(loaded.tensors[i].data() + region.begin * element, region.data,
                  static_cast<std::size_t>(region.count * element));
      held[i] += region.count;
    }
  });
  for (std::size_t i = 0; i < model.size(); ++i)
    if (held[i] < model[i].numel()) throw std::logic_error("no rank holds all of " + model[i].name);
  return loaded;
}

}  // namespace shoal::testing

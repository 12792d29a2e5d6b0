#include "formats/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <tuple>

#include "core/check.h"

namespace shoal::formats {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kMostHeaderBytes = 100'000'000;  // the limit of the reference implementation
constexpr const char* kMetadataKey = "__metadata__";

struct Entry {
  std::string_view name;
  DType dtype;
};
constexpr std::array<Entry, 12> kTypes{{{"F64", DType::float64},
                                        {"F32", DType::float32},
                                        {"F16", DType::float16},
                                        {"BF16", DType::bfloat16},
                                        {"F8_E4M3", DType::float8_e4m3fn},
                                        {"F8_E5M2", DType::float8_e5m2},
                                        {"I64", DType::int64},
                                        {"I32", DType::int32},
                                        {"I16", DType::int16},
                                        {"I8", DType::int8},
                                        {"U8", DType::uint8},
                                        {"BOOL", DType::boolean}}};

std::optional<DType> dtype_of(std::string_view name) {
  for (const Entry& entry : kTypes)
    if (entry.name == name) return entry.dtype;
  return std::nullopt;
}

std::string_view type_name(DType dtype) {
  for (const Entry& entry : kTypes)
    if (entry.dtype == dtype) return entry.name;
  throw InternalError("element type {} has no name in safetensors", name_of(dtype));
}

std::uint64_t little_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = kLengthBytes; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

// nlohmann keeps the last of several equal keys; a file that has them is one that two readers take for two things.
Json parse_without_duplicates(const std::string& text, const std::string& path) {
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  const auto watch = [&](int, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key) {
      const auto& name = value.get_ref<const std::string&>();
      SHOAL_CHECK(keys.back().insert(name).second, CheckpointError, "{}: '{}' stands twice in the header", path, name);
    }
    return true;
  };
  try {
    Json header = Json::parse(text, watch);
    SHOAL_CHECK(header.is_object(), CheckpointError, "{}: the header is no JSON object: it is damaged", path);
    return header;
  } catch (const Json::exception& error) {
    throw CheckpointError("{}: the header is damaged: {}", path, error.what());
  }
}

// A tensor and the bytes that the header gives it, from the end of the header.
struct Placed {
  StoredTensor tensor;
  std::uint64_t begin = 0, end = 0;
  bool known = false;  // false: of an element type that is none of ours, which `tensor` does not tell
  std::string type;
};

Placed placed_tensor(const std::string& name, const Json& json) {
  Placed placed;
  placed.type = json.at("dtype").get<std::string>();
  const std::optional<DType> dtype = dtype_of(placed.type);
  placed.known = dtype.has_value();
  placed.tensor.spec.name = name;
  placed.tensor.spec.dtype = dtype.value_or(DType::uint8);
  for (const Json& extent : json.at("shape")) {
    // get<> would wrap what does not fit and round what is no integer.
    SHOAL_CHECK(extent.is_number_unsigned() && extent.get<std::uint64_t>() <= INT64_MAX, CheckpointError,
                "an extent of the shape is no whole number, or too large");
    placed.tensor.spec.shape.push_back(extent.get<std::int64_t>());
  }
  const Json& offsets = json.at("data_offsets");
  SHOAL_CHECK(offsets.is_array() && offsets.size() == 2 && offsets[0].is_number_unsigned() &&
                  offsets[1].is_number_unsigned() && offsets[0] <= offsets[1],
              CheckpointError, "data_offsets are no begin and end");
  placed.begin = offsets[0].get<std::uint64_t>();
  placed.end = offsets[1].get<std::uint64_t>();
  return placed;
}

void check_size(const Placed& placed) {
  const TensorSpec& spec = placed.tensor.spec;
  const std::optional<std::int64_t> bytes = bytes_of(spec.dtype, spec.shape);
  SHOAL_CHECK(bytes, CheckpointError, "the shape is impossible");
  SHOAL_CHECK(!placed.known || static_cast<std::uint64_t>(*bytes) == placed.end - placed.begin, CheckpointError,
              "the shape wants {} bytes, data_offsets give {}", *bytes, placed.end - placed.begin);
}

std::vector<Placed> placed_tensors(const Json& header, const std::string& path) {
  std::vector<Placed> tensors;
  for (const auto& [name, json] : header.items()) {
    if (name == kMetadataKey) continue;
    try {
      tensors.push_back(placed_tensor(name, json));
      check_size(tensors.back());
    } catch (const std::exception& error) {
      throw CheckpointError("{}: tensor '{}': {}", path, name, error.what());
    }
  }
  return tensors;
}

// Sorts by place. The tensors' bytes follow each other from the end of the header to the end of the file.
void check_places(std::vector<Placed>& tensors, std::uint64_t data_bytes, const std::string& path) {
  std::stable_sort(tensors.begin(), tensors.end(), [](const Placed& a, const Placed& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::uint64_t end = 0;
  for (const Placed& placed : tensors) {
    const std::string& name = placed.tensor.spec.name;
    SHOAL_CHECK(placed.end <= data_bytes, CheckpointError,
                "{}: tensor '{}' ends at byte {} of the data, of which the file has {}: it is truncated or damaged",
                path, name, placed.end, data_bytes);
    SHOAL_CHECK(placed.begin == end, CheckpointError,
                "{}: tensor '{}' begins at byte {} of the data, the one before it ends at {}: they {}", path, name,
                placed.begin, end, placed.begin < end ? "overlap" : "leave a gap");
    end = placed.end;
  }
  SHOAL_CHECK(end == data_bytes, CheckpointError, "{}: {} bytes follow the last tensor's: the file is damaged", path,
              data_bytes - end);
}

}  // namespace

bool looks_like_safetensors(std::string_view head) {
  return head.size() > kLengthBytes && head[kLengthBytes] == '{' && little_endian(head) <= kMostHeaderBytes;
}

StoredTensors read_safetensors_header(const ByteSource& file) {
  const std::uint64_t length = little_endian(file.read(0, kLengthBytes, kLengthBytes, "the header's length"));
  const Json header =
      parse_without_duplicates(file.read(kLengthBytes, length, kMostHeaderBytes, "the header"), file.path);
  const std::uint64_t data_begin = kLengthBytes + length;
  std::vector<Placed> tensors = placed_tensors(header, file.path);
  check_places(tensors, file.bytes - data_begin, file.path);
  StoredTensors stored;
  for (Placed& placed : tensors) {
    placed.tensor.offset = data_begin + placed.begin;
    if (placed.known)
      stored.tensors.push_back(std::move(placed.tensor));
    else
      stored.others.push_back({placed.tensor.spec.name, "has the element type " + placed.type});
  }
  return stored;
}

SafetensorsLayout lay_out_safetensors(const std::vector<TensorSpec>& tensors,
                                      const std::map<std::string, std::string>& metadata) {
  constexpr std::uint64_t kAlignment = 8;
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::tuple(-size_of(tensors[a].dtype), tensors[a].name) <
           std::tuple(-size_of(tensors[b].dtype), tensors[b].name);
  });
  SafetensorsLayout layout;
  layout.offsets.resize(tensors.size());
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[kMetadataKey] = metadata;
  std::uint64_t end = 0;
  for (const std::size_t i : order) {
    const TensorSpec& spec = tensors[i];
    layout.offsets[i] = end;
    end += static_cast<std::uint64_t>(spec.numel() * size_of(spec.dtype));
    header[spec.name] = {
        {"dtype", type_name(spec.dtype)}, {"shape", spec.shape}, {"data_offsets", {layout.offsets[i], end}}};
  }
  std::string text = header.dump();
  text.append((kAlignment - text.size() % kAlignment) % kAlignment, ' ');
  SHOAL_CHECK(text.size() <= kMostHeaderBytes, OptionError,
              "the header of a safetensors file of {} tensors has {} bytes, and readers take {}: give --max-shard-size",
              tensors.size(), text.size(), kMostHeaderBytes);
  for (std::uint64_t byte = 0; byte < kLengthBytes; ++byte)
    layout.header += static_cast<char>(text.size() >> (8 * byte));
  layout.header += text;
  for (std::uint64_t& offset : layout.offsets) offset += layout.header.size();
  layout.bytes = layout.header.size() + end;
  return layout;
}

}  // namespace shoal::formats

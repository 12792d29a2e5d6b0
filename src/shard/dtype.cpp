#include "shard/dtype.h"

#include <array>

#include "core/check.h"

namespace shoal {
namespace {

struct Entry {
  DType dtype;
  std::string_view name;
  std::int64_t size;
};
constexpr std::array<Entry, 12> kTypes{{{DType::float64, "float64", 8},
                                        {DType::float32, "float32", 4},
                                        {DType::float16, "float16", 2},
                                        {DType::bfloat16, "bfloat16", 2},
                                        {DType::float8_e4m3fn, "float8_e4m3fn", 1},
                                        {DType::float8_e5m2, "float8_e5m2", 1},
                                        {DType::int64, "int64", 8},
                                        {DType::int32, "int32", 4},
                                        {DType::int16, "int16", 2},
                                        {DType::int8, "int8", 1},
                                        {DType::uint8, "uint8", 1},
                                        {DType::boolean, "bool", 1}}};

}  // namespace

std::int64_t size_of(DType dtype) noexcept { return kTypes[static_cast<std::size_t>(dtype)].size; }
std::string_view name_of(DType dtype) noexcept { return kTypes[static_cast<std::size_t>(dtype)].name; }

DType dtype_from_name(std::string_view name) {
  for (const Entry& entry : kTypes)
    if (entry.name == name) return entry.dtype;
  throw CheckpointError("'{}' is no element type that Shoal knows", name);
}

}  // namespace shoal

#include "formats/npy.h"

#include <array>

#include "core/check.h"

namespace shoal::formats {
namespace {

struct Entry {
  DType dtype;
  std::string_view name;
};
constexpr std::array<Entry, 9> kTypes{{{DType::float64, "<f8"},
                                       {DType::float32, "<f4"},
                                       {DType::float16, "<f2"},
                                       {DType::int64, "<i8"},
                                       {DType::int32, "<i4"},
                                       {DType::int16, "<i2"},
                                       {DType::int8, "|i1"},
                                       {DType::uint8, "|u1"},
                                       {DType::boolean, "|b1"}}};

std::string tuple_of(const std::vector<std::int64_t>& shape) {
  std::string text = "(";
  for (const std::int64_t extent : shape) text += fmt::format("{}, ", extent);
  if (!shape.empty()) text.resize(text.size() - (shape.size() == 1 ? 1 : 2));  // (7,) and (2, 3)
  return text + ")";
}

}  // namespace

std::optional<std::string_view> npy_type(DType dtype) {
  for (const Entry& entry : kTypes)
    if (entry.dtype == dtype) return entry.name;
  return std::nullopt;
}

std::string npy_header(const TensorSpec& spec) {
  constexpr std::size_t kAlignment = 64, kLongest = 0xFFFF;  // of version 1.0
  const auto type = npy_type(spec.dtype);
  SHOAL_CHECK(type, InternalError, "NumPy has no element type {}", name_of(spec.dtype));
  std::string dictionary =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", *type, tuple_of(spec.shape));
  const bool is_long = dictionary.size() + kAlignment > kLongest;
  const std::size_t before = is_long ? 12 : 10;  // magic, version, and the length of what follows
  const std::size_t whole = (before + dictionary.size() + kAlignment) / kAlignment * kAlignment;
  dictionary.resize(whole - before - 1, ' ');
  dictionary += '\n';
  std::string header{'\x93', 'N', 'U', 'M', 'P', 'Y', is_long ? '\x02' : '\x01', '\0'};
  for (std::size_t i = 8; i < before; ++i) header += static_cast<char>(dictionary.size() >> (8 * (i - 8)));
  return header + dictionary;
}

}  // namespace shoal::formats

#include "checkpoint/convert_elements.h"

#include <cstring>

#include "core/check.h"
#include "core/half.h"

namespace shoal::checkpoint {
namespace {

double value_of(double x) { return x; }
float value_of(float x) { return x; }
float value_of(Float16 x) { return to_float(x); }
float value_of(BFloat16 x) { return to_float(x); }

void assign(double& to, double x) { to = x; }
void assign(float& to, double x) { to = static_cast<float>(x); }
void assign(Float16& to, double x) { to = to_float16(static_cast<float>(x)); }
void assign(BFloat16& to, double x) { to = to_bfloat16(static_cast<float>(x)); }

template <typename Function>
void with_type(DType dtype, const Function& function) {
  switch (dtype) {
    case DType::float64: return function(double{});
    case DType::float32: return function(float{});
    case DType::float16: return function(Float16{});
    case DType::bfloat16: return function(BFloat16{});
    default: throw InternalError("{} is no floating type to convert", name_of(dtype));
  }
}

template <typename From, typename To>
void convert_all(const From* from, To* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) assign(to[i], value_of(from[i]));
}

}  // namespace

void convert_elements(const std::byte* from, DType from_type, std::byte* to, DType to_type, std::int64_t count) {
  if (from_type == to_type) {
    if (count > 0) std::memcpy(to, from, static_cast<std::size_t>(count * size_of(to_type)));
    return;
  }
  with_type(from_type, [&](auto source) {
    with_type(to_type, [&](auto target) {
      convert_all(reinterpret_cast<const decltype(source)*>(from), reinterpret_cast<decltype(target)*>(to), count);
    });
  });
}

}  // namespace shoal::checkpoint

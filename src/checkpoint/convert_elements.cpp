#include "checkpoint/convert_elements.h"

#include <cstring>

#include "core/check.h"
#include "core/float8.h"
#include "core/half.h"

namespace shoal::checkpoint {
namespace {

double value_of(double x) { return x; }
float value_of(float x) { return x; }
float value_of(Float16 x) { return to_float(x); }
float value_of(BFloat16 x) { return to_float(x); }
float value_of(Float8E4M3 x) { return to_float(x); }
float value_of(Float8E5M2 x) { return to_float(x); }

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

template <typename Function>
void with_source_type(DType dtype, const Function& function) {
  if (dtype == DType::float8_e4m3fn) return function(Float8E4M3{});
  if (dtype == DType::float8_e5m2) return function(Float8E5M2{});
  with_type(dtype, function);
}

template <typename From, typename To>
void convert_all(const std::byte* from, std::byte* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    From source;
    To target;
    std::memcpy(&source, from + i * std::int64_t{sizeof source}, sizeof source);
    assign(target, value_of(source));
    std::memcpy(to + i * std::int64_t{sizeof target}, &target, sizeof target);
  }
}

}  // namespace

void convert_elements(const std::byte* from, DType from_type, std::byte* to, DType to_type, std::int64_t count) {
  if (from_type == to_type) {
    if (count > 0) std::memcpy(to, from, static_cast<std::size_t>(count * size_of(to_type)));
    return;
  }
  with_source_type(from_type, [&](auto source) {
    with_type(to_type, [&](auto target) { convert_all<decltype(source), decltype(target)>(from, to, count); });
  });
}

}  // namespace shoal::checkpoint

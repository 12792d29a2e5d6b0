#include "hdf5/datatype.h"

#include <array>
#include <string>

namespace shoal::hdf5 {
namespace {

constexpr const char* kSubject = "element type";

DatatypeHandle copy_of(hid_t predefined) { return DatatypeHandle(call("H5Tcopy", kSubject, H5Tcopy, predefined)); }

// 1 sign bit, then exponent, then mantissa, in 16 bits.
DatatypeHandle half_width_float(std::size_t exponent_bits, std::size_t bias) {
  DatatypeHandle type = copy_of(H5T_IEEE_F32LE);
  const std::size_t mantissa_bits = 15 - exponent_bits;
  call("H5Tset_fields", kSubject, H5Tset_fields, type.get(), std::size_t{15}, mantissa_bits, exponent_bits,
       std::size_t{0}, mantissa_bits);
  call("H5Tset_size", kSubject, H5Tset_size, type.get(), std::size_t{2});
  call("H5Tset_ebias", kSubject, H5Tset_ebias, type.get(), bias);
  return type;
}

DatatypeHandle boolean_type() {
  DatatypeHandle type(call("H5Tenum_create", kSubject, H5Tenum_create, H5T_STD_I8LE));
  constexpr std::int8_t kFalse = 0, kTrue = 1;
  call("H5Tenum_insert", kSubject, H5Tenum_insert, type.get(), "FALSE", &kFalse);
  call("H5Tenum_insert", kSubject, H5Tenum_insert, type.get(), "TRUE", &kTrue);
  return type;
}

// Bytes whose type bears a name: an enumeration with the one member of that name.
DatatypeHandle named_byte(DType dtype) {
  DatatypeHandle type(call("H5Tenum_create", kSubject, H5Tenum_create, H5T_STD_U8LE));
  constexpr std::uint8_t kZero = 0;
  call("H5Tenum_insert", kSubject, H5Tenum_insert, type.get(), std::string(name_of(dtype)).c_str(), &kZero);
  return type;
}

}  // namespace

DatatypeHandle file_type(DType dtype) {
  const auto lock = lock_library();  // the predefined types are calls into the library as well
  switch (dtype) {
    case DType::float64: return copy_of(H5T_IEEE_F64LE);
    case DType::float32: return copy_of(H5T_IEEE_F32LE);
    case DType::float16: return half_width_float(5, 15);
    case DType::bfloat16: return half_width_float(8, 127);
    case DType::float8_e4m3fn:
    case DType::float8_e5m2: return named_byte(dtype);
    case DType::int64: return copy_of(H5T_STD_I64LE);
    case DType::int32: return copy_of(H5T_STD_I32LE);
    case DType::int16: return copy_of(H5T_STD_I16LE);
    case DType::int8: return copy_of(H5T_STD_I8LE);
    case DType::uint8: return copy_of(H5T_STD_U8LE);
    case DType::boolean: return boolean_type();
  }
  throw InternalError("element type {} has no HDF5 type", static_cast<int>(dtype));
}

DatatypeHandle uint64_file_type() {
  const auto lock = lock_library();
  return copy_of(H5T_STD_U64LE);
}

std::optional<DType> dtype_of(hid_t type) {
  for (int i = 0; i <= static_cast<int>(DType::boolean); ++i) {
    const auto dtype = static_cast<DType>(i);
    if (call("H5Tequal", kSubject, H5Tequal, type, file_type(dtype).get()) > 0) return dtype;
  }
  return std::nullopt;
}

}  // namespace shoal::hdf5

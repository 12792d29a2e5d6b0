#include "hdf5/datatype.h"

#include <gtest/gtest.h>

#include <cstring>

namespace shoal::hdf5 {
namespace {

TEST(Datatype, EveryElementTypeIsRecognised) {
  for (int i = 0; i <= static_cast<int>(DType::boolean); ++i) {
    const auto dtype = static_cast<DType>(i);
    const DatatypeHandle type = file_type(dtype);
    EXPECT_EQ(dtype_of(type.get()), dtype) << name_of(dtype);
    EXPECT_EQ(static_cast<std::int64_t>(H5Tget_size(type.get())), size_of(dtype)) << name_of(dtype);
  }
  EXPECT_EQ(dtype_of(uint64_file_type().get()), std::nullopt);
}

float as_float(hid_t type, std::uint16_t bits) {
  unsigned char buffer[4] = {static_cast<unsigned char>(bits), static_cast<unsigned char>(bits >> 8), 0, 0};
  H5Tconvert(type, H5T_NATIVE_FLOAT, 1, buffer, nullptr, H5P_DEFAULT);
  float value = 0;
  std::memcpy(&value, buffer, sizeof value);
  return value;
}

// HDF5 itself understands the 16-bit types, so other programs read them as numbers.
TEST(Datatype, SixteenBitFloatsConvert) {
  const DatatypeHandle brain = file_type(DType::bfloat16);
  EXPECT_EQ(as_float(brain.get(), 0x3F80), 1.0f);
  EXPECT_EQ(as_float(brain.get(), 0xC049), -3.140625f);
  EXPECT_EQ(as_float(brain.get(), 0x7F7F), 3.3895313892515355e38f);
  const DatatypeHandle half = file_type(DType::float16);
  EXPECT_EQ(as_float(half.get(), 0x3C00), 1.0f);
  EXPECT_EQ(as_float(half.get(), 0x7BFF), 65504.0f);
  EXPECT_EQ(as_float(half.get(), 0x0001), 5.9604644775390625e-8f);
}

}  // namespace
}  // namespace shoal::hdf5

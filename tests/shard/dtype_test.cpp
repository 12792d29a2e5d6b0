#include "shard/dtype.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace shoal {
namespace {

TEST(DType, NamesAndSizes) {
  const struct {
    DType dtype;
    const char* name;
    std::int64_t size;
    bool floating;
  } expected[] = {
      {DType::float64, "float64", 8, true},
      {DType::float32, "float32", 4, true},
      {DType::float16, "float16", 2, true},
      {DType::bfloat16, "bfloat16", 2, true},
      {DType::float8_e4m3fn, "float8_e4m3fn", 1, true},
      {DType::float8_e5m2, "float8_e5m2", 1, true},
      {DType::int64, "int64", 8, false},
      {DType::int32, "int32", 4, false},
      {DType::int16, "int16", 2, false},
      {DType::int8, "int8", 1, false},
      {DType::uint8, "uint8", 1, false},
      {DType::boolean, "bool", 1, false},
  };
  for (const auto& each : expected) {
    EXPECT_EQ(name_of(each.dtype), each.name);
    EXPECT_EQ(size_of(each.dtype), each.size) << each.name;
    EXPECT_EQ(is_floating(each.dtype), each.floating) << each.name;
    EXPECT_EQ(dtype_from_name(each.name), each.dtype) << each.name;
  }
}

TEST(DType, UnknownNamesAreNamed) {
  for (const char* name : {"", "float", "Float32", "float128"}) {
    try {
      dtype_from_name(name);
      ADD_FAILURE() << "'" << name << "' was taken";
    } catch (const CheckpointError& error) {
      EXPECT_NE(std::string(error.what()).find("'" + std::string(name) + "'"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace shoal

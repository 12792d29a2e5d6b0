#include "hdf5/attribute.h"

#include <gtest/gtest.h>

#include <limits>

#include "hdf5/temporary_file.h"

namespace shoal::hdf5 {
namespace {

using testing::TemporaryFile;

TEST(Attribute, ValuesSurviveTheFile) {
  const TemporaryFile temporary;
  const std::string long_text(1 << 20, 'x');  // far past what an object header holds
  File file = File::create_in_memory("test");
  write_attribute(file, "text", std::string("m\xC3\xBCnchen"));
  write_attribute(file, "none", std::string());
  write_attribute(file, "long", long_text);
  write_attribute(file, "integer", std::numeric_limits<std::int64_t>::min());
  write_attribute(file, "real", 0.1);
  temporary.store(file);

  const File again = File::open_for_reading(temporary.path());
  EXPECT_EQ(read_string_attribute(again, "text"), "m\xC3\xBCnchen");
  EXPECT_EQ(read_string_attribute(again, "none"), "");
  EXPECT_EQ(read_string_attribute(again, "long"), long_text);
  EXPECT_EQ(read_int64_attribute(again, "integer"), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(read_float64_attribute(again, "real"), 0.1);
}

TEST(Attribute, MissingAndOfAnotherKind) {
  const TemporaryFile temporary;
  File file = File::create_in_memory("test");
  write_attribute(file, "text", std::string("7"));
  write_attribute(file, "integer", std::int64_t{7});
  EXPECT_THROW(read_int64_attribute(file, "missing"), Hdf5Error);
  EXPECT_THROW(read_int64_attribute(file, "text"), Hdf5Error);
  EXPECT_THROW(read_string_attribute(file, "integer"), Hdf5Error);
  EXPECT_THROW(read_float64_attribute(file, "integer"), Hdf5Error);
}

}  // namespace
}  // namespace shoal::hdf5

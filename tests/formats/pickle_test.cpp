#include "formats/pickle.h"

#include <gtest/gtest.h>

namespace shoal::formats {
namespace {

using namespace std::string_literals;

// Against what `pickle.dumps(…, protocol=2)` and pickletools say of the same objects.
TEST(Pickle, Integers) {
  const auto pickled = [](std::int64_t value) {
    PickleWriter pickle;
    pickle.integer(value);
    return pickle.finish();
  };
  EXPECT_EQ(pickled(7), "\x80\x02J\x07\0\0\0."s);
  EXPECT_EQ(pickled(-1), "\x80\x02J\xff\xff\xff\xff."s);
  EXPECT_EQ(pickled(2147483647), "\x80\x02J\xff\xff\xff\x7f."s);
  EXPECT_EQ(pickled(2147483648), "\x80\x02\x8a\x08\0\0\0\x80\0\0\0\0."s);
  EXPECT_EQ(pickled(-2147483649), "\x80\x02\x8a\x08\xff\xff\xff\x7f\xff\xff\xff\xff."s);
}

TEST(Pickle, StringsAndTuples) {
  PickleWriter pickle;
  pickle.mark();
  pickle.string("m\xC3\xBC");
  pickle.boolean(true);
  pickle.boolean(false);
  pickle.integers({});
  pickle.integers({1});
  pickle.tuple_from_mark();
  EXPECT_EQ(pickle.finish(), "\x80\x02(X\x03\0\0\0m\xC3\xBC\x88\x89)(J\x01\0\0\0tt."s);
}

TEST(Pickle, CallsAndMappings) {
  PickleWriter pickle;
  pickle.global("collections", "OrderedDict");
  pickle.empty_tuple();
  pickle.reduce();
  pickle.mark();
  pickle.set_items();
  EXPECT_EQ(pickle.finish(), "\x80\x02"s + "ccollections\nOrderedDict\n)R(u.");
}

}  // namespace
}  // namespace shoal::formats

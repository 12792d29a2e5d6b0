// Floating-point sums over ranks are the same tree in every collective of every backend, at every size.
#include <gtest/gtest.h>

#include <vector>

#include "comm/naive_tree.h"
#include "comm/process_group.h"
#include "support/on_ranks.h"

namespace shoal::comm {
namespace {

using namespace shoal::testing;

template <typename T>
class ReductionOrder : public ::testing::Test {};
using Types = ::testing::Types<double, float, BFloat16, Float16>;
TYPED_TEST_SUITE(ReductionOrder, Types);

const std::int64_t kCounts[] = {0, 1, 7, 1500, 5001};  // small messages may take other ways than large ones

template <typename T>
T expected_sum(int ranks, std::int64_t element) {
  std::vector<T> terms;
  for (int r = 0; r < ranks; ++r) terms.push_back(uneven_element<T>(r, element));
  return naive_tree(terms);
}

TYPED_TEST(ReductionOrder, OfAllReduceIsTheTree) {
  on_ranks([](ProcessGroup& group) {
    for (const std::int64_t count : kCounts) {
      std::vector<TypeParam> data;
      for (std::int64_t i = 0; i < count; ++i) data.push_back(uneven_element<TypeParam>(group.rank(), i));
      group.all_reduce(data.data(), count, kTypeOf<TypeParam>, ReduceOp::sum)->wait();
      for (std::int64_t i = 0; i < count; ++i)
        ASSERT_EQ(exact(data[i]), exact(expected_sum<TypeParam>(group.size(), i))) << i << " of " << count;
    }
  });
}

TYPED_TEST(ReductionOrder, OfReduceScatterIsTheTree) {
  on_ranks([](ProcessGroup& group) {
    for (const std::int64_t count : kCounts) {
      std::vector<TypeParam> whole, mine(static_cast<std::size_t>(count));
      for (std::int64_t i = 0; i < count * group.size(); ++i)
        whole.push_back(uneven_element<TypeParam>(group.rank(), i));
      group.reduce_scatter(whole.data(), mine.data(), count, kTypeOf<TypeParam>, ReduceOp::sum)->wait();
      for (std::int64_t i = 0; i < count; ++i)
        ASSERT_EQ(exact(mine[i]), exact(expected_sum<TypeParam>(group.size(), group.rank() * count + i)));
    }
  });
}

TEST(ReductionOrderScalars, AreTheTreeToo) {
  on_ranks([](ProcessGroup& group) {
    EXPECT_EQ(all_reduce(group, uneven_element<double>(group.rank(), 3), ReduceOp::sum),
              expected_sum<double>(group.size(), 3));
  });
}

}  // namespace
}  // namespace shoal::comm

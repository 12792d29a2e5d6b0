// The table of a file that several ranks write.
#include "checkpoint/shard_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace shoal::checkpoint {
namespace {

TEST(MergedTable, IsInTheOrderOfTensorsThenMembersAndEachMemberFindsItsRows) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<RegionTable> members(1 + random() % 5);
    for (std::size_t member = 0; member < members.size(); ++member) {
      for (std::uint64_t tensor = 0; tensor < 6; ++tensor)
        if (random() % 2 == 0) members[member].push_back({tensor, 100 * member, 1 + random() % 9, 0});
    }
    const SharedTable shared = merge(members);
    ASSERT_EQ(shared.places.size(), members.size());
    EXPECT_TRUE(std::is_sorted(shared.rows.begin(), shared.rows.end(), [](const RegionRow& a, const RegionRow& b) {
      return std::pair(a.tensor, a.begin) < std::pair(b.tensor, b.begin);
    }));
    std::size_t rows = 0;
    for (std::size_t member = 0; member < members.size(); ++member) {
      ASSERT_EQ(shared.places[member].size(), members[member].size());
      for (std::size_t row = 0; row < members[member].size(); ++row)
        EXPECT_EQ(shared.rows.at(shared.places[member][row]), members[member][row]);
      rows += members[member].size();
    }
    EXPECT_EQ(shared.rows.size(), rows);
  }
}

}  // namespace
}  // namespace shoal::checkpoint

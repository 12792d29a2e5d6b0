#include "core/unique_handle.h"

#include <gtest/gtest.h>

#include <type_traits>
#include <vector>

namespace shoal {
namespace {

std::vector<int> g_closed;

struct Traits {
  using Handle = int;
  static Handle invalid() noexcept { return -1; }
  static void close(Handle handle) noexcept { g_closed.push_back(handle); }
};
using Handle = UniqueHandle<Traits>;

static_assert(!std::is_copy_constructible_v<Handle> && !std::is_copy_assignable_v<Handle>);
static_assert(std::is_nothrow_move_constructible_v<Handle> && std::is_nothrow_move_assignable_v<Handle>);

class UniqueHandleTest : public ::testing::Test {
 protected:
  void SetUp() override { g_closed.clear(); }
};

using Closed = std::vector<int>;

TEST_F(UniqueHandleTest, ClosesOnceAtTheEnd) {
  { const Handle handle(3); }
  EXPECT_EQ(g_closed, Closed{3});
}

TEST_F(UniqueHandleTest, EmptyClosesNothing) {
  {
    const Handle handle;
    EXPECT_FALSE(handle);
  }
  EXPECT_EQ(g_closed, Closed{});
}

TEST_F(UniqueHandleTest, MovedFromIsEmpty) {
  {
    Handle first(3);
    const Handle second(std::move(first));
    EXPECT_FALSE(first);
    EXPECT_EQ(second.get(), 3);
  }
  EXPECT_EQ(g_closed, Closed{3});
}

TEST_F(UniqueHandleTest, AssignmentClosesWhatWasHeld) {
  Handle first(3), second(4);
  first = std::move(second);
  EXPECT_EQ(g_closed, Closed{3});
  EXPECT_EQ(first.get(), 4);
}

TEST_F(UniqueHandleTest, AssignmentToItselfKeepsIt) {
  Handle handle(3);
  Handle& same = handle;
  handle = std::move(same);
  EXPECT_EQ(handle.get(), 3);
  EXPECT_EQ(g_closed, Closed{});
}

TEST_F(UniqueHandleTest, ReleaseGivesUpOwnership) {
  {
    Handle handle(3);
    EXPECT_EQ(handle.release(), 3);
    EXPECT_FALSE(handle);
  }
  EXPECT_EQ(g_closed, Closed{});
}

TEST_F(UniqueHandleTest, ResetReplaces) {
  Handle handle(3);
  handle.reset(4);
  handle.reset();
  EXPECT_EQ(g_closed, (Closed{3, 4}));
}

}  // namespace
}  // namespace shoal

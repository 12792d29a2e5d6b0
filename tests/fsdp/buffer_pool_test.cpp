// Which memory a pool lends, and what becomes of it.
#include "fsdp/buffer_pool.h"

#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "support/live_bytes.h"

namespace shoal::testing {
namespace {

using fsdp::BufferPool;

at::Tensor bytes(std::int64_t count) { return at::empty({count}, at::kByte); }

const std::byte* address(const at::Tensor& buffer) { return static_cast<const std::byte*>(buffer.const_data_ptr()); }

TEST(BufferPool, LendsAnOwnersPlaceOfTheReservedMemory) {
  BufferPool pool(at::kCPU);
  const at::Tensor memory = bytes(4096);
  pool.reserve(memory);
  const int first = 0, second = 0;
  pool.set_place(&first, 512);
  pool.set_place(&second, 2048);
  const at::Tensor a = pool.acquire(128, at::kFloat, &second), b = pool.acquire(300, at::kBFloat16, &first);
  EXPECT_EQ(address(a), address(memory) + 2048);
  EXPECT_EQ(address(b), address(memory) + 512);
  EXPECT_EQ(a.numel(), 128);
  EXPECT_EQ(a.scalar_type(), at::kFloat);
  EXPECT_EQ(b.numel(), 300);
  EXPECT_EQ(pool.place(a), 2048);
  EXPECT_EQ(pool.place(b), 512);
  EXPECT_EQ(pool.bytes(), 4096);
  EXPECT_EQ(pool.made(), 0);
}

// A place of which somebody has a part is not lent: neither its beginning nor its end, nor what lies inside it.
TEST(BufferPool, TakesTheFirstFreePartWhereThePlaceIsTaken) {
  for (const std::int64_t taken : {256, 768, 512}) {
    BufferPool pool(at::kCPU);
    pool.reserve(bytes(4096));
    const int other = 0, owner = 0;
    pool.set_place(&other, taken);
    pool.set_place(&owner, 512);
    const at::Tensor in_the_way = pool.acquire(taken == 512 ? 1 : 300, at::kByte, &other);
    const at::Tensor buffer = pool.acquire(512, at::kByte, &owner);
    EXPECT_EQ(pool.place(buffer), taken == 256 ? 768 : 0) << taken;
    pool.release(in_the_way);
    pool.release(buffer);
    EXPECT_EQ(pool.place(pool.acquire(512, at::kByte, &owner)), 512);
  }
}

TEST(BufferPool, MakesWhatDoesNotFitAndKeepsIt) {
  BufferPool pool(at::kCPU);
  pool.reserve(bytes(1024));
  at::Tensor half = pool.acquire(600, at::kByte);
  EXPECT_EQ(pool.place(half), 0);
  at::Tensor made = pool.acquire(600, at::kByte);  // from 768 on there are 256 bytes
  EXPECT_EQ(pool.place(made), -1);
  EXPECT_EQ(pool.made(), 1);
  EXPECT_EQ(pool.bytes(), 1624);
  const std::byte* const there = address(made);
  pool.release(std::move(made));
  const at::Tensor again = pool.acquire(500, at::kByte), small = pool.acquire(256, at::kByte);
  EXPECT_EQ(address(again), there);
  EXPECT_EQ(pool.place(small), 768);
  EXPECT_EQ(pool.made(), 1);
  pool.release(std::move(half));
  EXPECT_EQ(pool.place(pool.acquire(768, at::kByte)), 0);
  EXPECT_THROW(pool.release(bytes(16)), InternalError);
}

TEST(BufferPool, GivesBackWhatItMade) {
  LiveBytes live;
  const std::int64_t before = live.live();
  for (const auto spare : {BufferPool::Spare::kept, BufferPool::Spare::given_back}) {
    BufferPool pool(at::kCPU, /*pinned=*/false, spare);
    pool.release(pool.acquire(1000, at::kFloat));
    const std::int64_t kept = spare == BufferPool::Spare::kept ? 4000 : 0;
    EXPECT_EQ(pool.bytes(), kept);
    EXPECT_EQ(live.live() - before, kept);
  }
  EXPECT_EQ(live.live(), before);
}

// A parameter without elements has a buffer without memory.
TEST(BufferPool, LendsNothingToo) {
  BufferPool pool(at::kCPU);
  pool.reserve(bytes(256));
  at::Tensor nothing = pool.acquire(0, at::kFloat), more = pool.acquire(0, at::kFloat);
  EXPECT_EQ(nothing.numel(), 0);
  EXPECT_EQ(pool.place(pool.acquire(64, at::kFloat)), 0);
  pool.release(std::move(nothing));
  pool.release(std::move(more));
}

}  // namespace
}  // namespace shoal::testing

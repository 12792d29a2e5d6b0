// What every backend promises, against a computation on one rank.
#include "comm/process_group.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "core/error.h"
#include "support/on_ranks.h"

namespace shoal::comm {
namespace {

using shoal::testing::on_ranks;

// What rank r brings as element i: whole numbers, so that sums are exact in every type.
std::int64_t element(int rank, std::int64_t i) { return (i * 7 + rank * 3) % 11; }

template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::float64;
};
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::float32;
};
template <>
struct DTypeOf<std::int64_t> {
  static constexpr DType value = DType::int64;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType value = DType::int32;
};
template <>
struct DTypeOf<std::int16_t> {
  static constexpr DType value = DType::int16;
};
template <>
struct DTypeOf<std::uint8_t> {
  static constexpr DType value = DType::uint8;
};

template <typename T>
class ProcessGroupTest : public ::testing::Test {};
using Types = ::testing::Types<double, float, std::int64_t, std::int32_t, std::uint8_t>;
TYPED_TEST_SUITE(ProcessGroupTest, Types);

const std::int64_t kCounts[] = {0, 1, 5, 1000, 5000};

TYPED_TEST(ProcessGroupTest, AllGatherPutsEveryRanksPartInItsPlace) {
  on_ranks([](ProcessGroup& group) {
    for (const std::int64_t count : kCounts) {
      std::vector<TypeParam> mine(count), all(count * group.size(), TypeParam{99});
      for (std::int64_t i = 0; i < count; ++i) mine[i] = static_cast<TypeParam>(element(group.rank(), i));
      group.all_gather(mine.data(), all.data(), count, DTypeOf<TypeParam>::value)->wait();
      for (int r = 0; r < group.size(); ++r)
        for (std::int64_t i = 0; i < count; ++i) ASSERT_EQ(all[r * count + i], static_cast<TypeParam>(element(r, i)));
    }
  });
}

TYPED_TEST(ProcessGroupTest, AllGatherWorksInPlace) {
  on_ranks([](ProcessGroup& group) {
    const std::int64_t count = 17;
    std::vector<TypeParam> all(count * group.size(), TypeParam{99});
    for (std::int64_t i = 0; i < count; ++i)
      all[group.rank() * count + i] = static_cast<TypeParam>(element(group.rank(), i));
    group.all_gather(&all[group.rank() * count], all.data(), count, DTypeOf<TypeParam>::value)->wait();
    for (int r = 0; r < group.size(); ++r)
      for (std::int64_t i = 0; i < count; ++i) ASSERT_EQ(all[r * count + i], static_cast<TypeParam>(element(r, i)));
  });
}

TYPED_TEST(ProcessGroupTest, ReduceScatterGivesEachRankItsSum) {
  on_ranks([](ProcessGroup& group) {
    for (const std::int64_t count : kCounts) {
      std::vector<TypeParam> all(count * group.size()), mine(count, TypeParam{99});
      for (std::size_t i = 0; i < all.size(); ++i)
        all[i] = static_cast<TypeParam>(element(group.rank(), static_cast<std::int64_t>(i)));
      group.reduce_scatter(all.data(), mine.data(), count, DTypeOf<TypeParam>::value, ReduceOp::sum)->wait();
      for (std::int64_t i = 0; i < count; ++i) {
        std::int64_t sum = 0;
        for (int r = 0; r < group.size(); ++r) sum += element(r, group.rank() * count + i);
        ASSERT_EQ(mine[i], static_cast<TypeParam>(sum));
      }
    }
  });
}

TYPED_TEST(ProcessGroupTest, AllReduceSumsMaximaAndMinima) {
  on_ranks([](ProcessGroup& group) {
    for (const std::int64_t count : kCounts) {
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::min}) {
        std::vector<TypeParam> data(count);
        for (std::int64_t i = 0; i < count; ++i) data[i] = static_cast<TypeParam>(element(group.rank(), i));
        group.all_reduce(data.data(), count, DTypeOf<TypeParam>::value, op)->wait();
        for (std::int64_t i = 0; i < count; ++i) {
          std::int64_t expected = element(0, i);
          for (int r = 1; r < group.size(); ++r) {
            const std::int64_t next = element(r, i);
            expected = op == ReduceOp::sum   ? expected + next
                       : op == ReduceOp::max ? std::max(expected, next)
                                             : std::min(expected, next);
          }
          ASSERT_EQ(data[i], static_cast<TypeParam>(expected));
        }
      }
    }
  });
}

TYPED_TEST(ProcessGroupTest, BroadcastComesFromEveryRoot) {
  on_ranks([](ProcessGroup& group) {
    for (int root = 0; root < group.size(); ++root) {
      std::vector<TypeParam> data(33);
      for (std::int64_t i = 0; i < 33; ++i) data[i] = static_cast<TypeParam>(element(group.rank(), i));
      group.broadcast(data.data(), 33, DTypeOf<TypeParam>::value, root)->wait();
      for (std::int64_t i = 0; i < 33; ++i) ASSERT_EQ(data[i], static_cast<TypeParam>(element(root, i)));
    }
  });
}

template <typename T>
class AllToAllTest : public ::testing::Test {};
using MovedTypes = ::testing::Types<double, float, std::int64_t, std::int32_t, std::int16_t, std::uint8_t>;
TYPED_TEST_SUITE(AllToAllTest, MovedTypes);

// What rank `from` has for rank `to` as element i.
template <typename T>
T parcel(int from, int to, std::int64_t i) {
  return static_cast<T>(element(from * 5 + to, i));
}

TYPED_TEST(AllToAllTest, EachRankGetsItsPartOfEveryRank) {
  on_ranks([](ProcessGroup& group) {
    for (const std::int64_t count : kCounts) {
      std::vector<TypeParam> out(count * group.size()), in(count * group.size(), TypeParam{99});
      for (int to = 0; to < group.size(); ++to)
        for (std::int64_t i = 0; i < count; ++i) out[to * count + i] = parcel<TypeParam>(group.rank(), to, i);
      group.all_to_all(out.data(), in.data(), count, DTypeOf<TypeParam>::value)->wait();
      for (int from = 0; from < group.size(); ++from)
        for (std::int64_t i = 0; i < count; ++i)
          ASSERT_EQ(in[from * count + i], parcel<TypeParam>(from, group.rank(), i)) << count << ' ' << from << ' ' << i;
    }
  });
}

TEST(ProcessGroupAllToAll, SixteenBitFloatsMoveBitForBit) {
  on_ranks([](ProcessGroup& group) {
    const std::int64_t count = 1001;
    for (const DType dtype : {DType::bfloat16, DType::float16}) {
      std::vector<std::uint16_t> out(count * group.size()), in(count * group.size());
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::uint16_t>(i * 37 + group.rank() * 1009);
      group.all_to_all(out.data(), in.data(), count, dtype)->wait();
      for (int from = 0; from < group.size(); ++from)
        for (std::int64_t i = 0; i < count; ++i)
          ASSERT_EQ(in[from * count + i], static_cast<std::uint16_t>((group.rank() * count + i) * 37 + from * 1009));
    }
  });
}

// A reduce-scatter is an all-to-all and a sum: what gradients on a 16-bit wire with sums in float32 are made of.
TEST(ProcessGroupAllToAll, AndASumAreAReduceScatter) {
  on_ranks([](ProcessGroup& group) {
    const std::int64_t count = 300;
    std::vector<float> mine(count * group.size()), parts(mine.size()), sum(count), expected(count);
    for (std::size_t i = 0; i < mine.size(); ++i)
      mine[i] = static_cast<float>(element(group.rank(), static_cast<std::int64_t>(i)));
    group.all_to_all(mine.data(), parts.data(), count, DType::float32)->wait();
    for (int r = 0; r < group.size(); ++r)
      for (std::int64_t i = 0; i < count; ++i) sum[i] += parts[r * count + i];
    group.reduce_scatter(mine.data(), expected.data(), count, DType::float32, ReduceOp::sum)->wait();
    EXPECT_EQ(sum, expected);
  });
}

TEST(ProcessGroupMemory, IsAlignedServesCollectivesAndOutlivesCopiesOfItsPointer) {
  on_ranks([](ProcessGroup& group) {
    for (const std::int64_t bytes : {0, 1, 255, 4096, 1 << 20}) {
      std::shared_ptr<void> memory = group.allocate(bytes);
      ASSERT_NE(memory, nullptr);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.get()) % 256, 0u);
      std::memset(memory.get(), 7, static_cast<std::size_t>(bytes));
      const std::shared_ptr<void> copy = memory;
      memory.reset();
      const auto* data = static_cast<const std::uint8_t*>(copy.get());
      for (std::int64_t i = 0; i < bytes; i += 251) ASSERT_EQ(data[i], 7);
    }
    const std::int64_t count = 1000;
    const auto memory = group.allocate(count * group.size() * 4);
    auto* all = static_cast<std::int32_t*>(memory.get());
    std::iota(all + group.rank() * count, all + (group.rank() + 1) * count, group.rank() * 10'000);
    group.all_gather(all + group.rank() * count, all, count, DType::int32)->wait();
    for (int r = 0; r < group.size(); ++r) ASSERT_EQ(all[r * count + 999], r * 10'000 + 999);
  });
}

TEST(ProcessGroupMemory, TakesWholeGrainsOfSixteenBytesFromSuchBoundaries) {
  on_ranks([](ProcessGroup& group) {
    const auto part = group.split(0, {.name = "part"});
    const std::int64_t bytes = 4096;
    const auto memory = part->allocate(bytes);
    std::vector<std::byte> own(bytes);
    auto* at = static_cast<std::byte*>(memory.get());
    std::memset(at, 0, bytes);
    EXPECT_THROW(part->all_gather(at, own.data(), 5, DType::bfloat16), InternalError);
    EXPECT_THROW(part->all_gather(own.data(), at, 5, DType::bfloat16), InternalError);
    EXPECT_THROW(part->reduce_scatter(at, own.data(), 3, DType::float32, ReduceOp::sum), InternalError);
    EXPECT_THROW(part->all_to_all(own.data(), at + 8, 4, DType::float32), InternalError);
    EXPECT_THROW(part->all_reduce(at + 4, 4, DType::float32, ReduceOp::sum), InternalError);
    try {
      part->broadcast(at + bytes - 1, 1, DType::uint8, 0);
      ADD_FAILURE() << "no error";
    } catch (const InternalError& error) {
      EXPECT_NE(
          std::string(error.what()).find("broadcast of 1 bytes a rank at 4095 bytes into memory that group 'part'"),
          std::string::npos)
          << error.what();
    }
    part->all_gather(at + 16 * part->rank(), at, 16, DType::uint8)->wait();
    part->broadcast(at + 3, 0, DType::uint8, 0)->wait();  // nothing moves
    group.broadcast(at + 3, 5, DType::uint8, 0)->wait();  // any other memory to the other group
    part->broadcast(own.data() + 3, 5, DType::uint8, 0)->wait();
  });
}

TEST(ProcessGroupSplit, PartsHaveTheirNameTheParentsLimitAndADescription) {
  on_ranks([](ProcessGroup& group) {
    group.set_timeout(std::chrono::milliseconds(12'345));
    const auto part = group.split(group.rank() % 2, {.name = "parity"});
    EXPECT_EQ(part->name(), "parity");
    EXPECT_EQ(part->timeout(), std::chrono::milliseconds(12'345));
    const int size = (group.size() + 1 - group.rank() % 2) / 2;
    EXPECT_EQ(part->describe(), fmt::format("{}, {} rank{}", group.backend(), size, size == 1 ? "" : "s"));
  });
}

TEST(ProcessGroupBytes, EveryRanksBytesOfAnyLengthReachAll) {
  on_ranks([](ProcessGroup& group) {
    const auto all = all_gather_bytes(
        group, std::string(static_cast<std::size_t>(group.rank() * 5), static_cast<char>('a' + group.rank())));
    ASSERT_EQ(static_cast<int>(all.size()), group.size());
    for (int r = 0; r < group.size(); ++r)
      EXPECT_EQ(all[r], std::string(static_cast<std::size_t>(r * 5), static_cast<char>('a' + r)));
    const int last = group.size() - 1;
    EXPECT_EQ(broadcast_bytes(group, group.rank() == last ? std::string("from\0the last", 13) : "not this", last),
              std::string("from\0the last", 13));
  });
}

TEST(ProcessGroupScalars, AreReduced) {
  on_ranks([](ProcessGroup& group) {
    const int n = group.size();
    EXPECT_EQ(all_reduce(group, std::int64_t{group.rank()}, ReduceOp::max), n - 1);
    EXPECT_DOUBLE_EQ(all_reduce(group, 0.5 + group.rank(), ReduceOp::sum), n * 0.5 + n * (n - 1) / 2.0);
  });
}

TEST(ProcessGroupOrder, SeveralCollectivesMayBeUnderWayAtOnce) {
  on_ranks([](ProcessGroup& group) {
    const std::int64_t count = 100;
    std::vector<std::vector<float>> gathered(3, std::vector<float>(count * group.size()));
    std::vector<float> mine(count, static_cast<float>(group.rank())), whole(count * group.size(), 1.0f), sum(count);
    std::vector<std::unique_ptr<Work>> works;
    for (auto& to : gathered) works.push_back(group.all_gather(mine.data(), to.data(), count, DType::float32));
    works.push_back(group.reduce_scatter(whole.data(), sum.data(), count, DType::float32, ReduceOp::sum));
    for (auto it = works.rbegin(); it != works.rend(); ++it) (*it)->wait();
    for (const auto& to : gathered)
      for (int r = 0; r < group.size(); ++r) EXPECT_EQ(to[r * count], static_cast<float>(r));
    EXPECT_EQ(sum[7], static_cast<float>(group.size()));
  });
}

}  // namespace
}  // namespace shoal::comm

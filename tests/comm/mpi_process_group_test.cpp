// What is MPI's own: messages in pieces, time-outs by name.
#include "comm/mpi_process_group.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <numeric>

#include "core/error.h"
#include "core/half.h"

namespace shoal::comm {
namespace {

std::string host_name() {
  std::array<char, 65> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

TEST(MpiProcessGroup, MessagesAboveTheLimitTravelInPieces) {
  MpiProcessGroup group(MPI_COMM_WORLD, {.max_message_bytes = 24});
  const std::int64_t count = 1001;
  std::vector<float> mine(count), all(count * group.size());
  std::iota(mine.begin(), mine.end(), static_cast<float>(10000 * group.rank()));
  group.all_gather(mine.data(), all.data(), count, DType::float32)->wait();
  for (int r = 0; r < group.size(); ++r)
    for (std::int64_t i = 0; i < count; ++i) ASSERT_EQ(all[r * count + i], static_cast<float>(10000 * r + i));

  std::vector<float> sum(count);
  group.reduce_scatter(all.data(), sum.data(), count, DType::float32, ReduceOp::sum)->wait();
  for (std::int64_t i = 0; i < count; ++i)
    ASSERT_EQ(sum[i], static_cast<float>(group.size() * (10000 * group.rank() + i)));

  std::vector<float> swapped(all.size());
  group.all_to_all(all.data(), swapped.data(), count, DType::float32)->wait();
  for (int r = 0; r < group.size(); ++r)
    for (std::int64_t i = 0; i < count; ++i)
      ASSERT_EQ(swapped[r * count + i], static_cast<float>(10000 * group.rank() + i));

  std::vector<float> data = group.rank() == 0 ? mine : std::vector<float>(count);
  group.broadcast(data.data(), count, DType::float32, 0)->wait();
  for (std::int64_t i = 0; i < count; ++i) ASSERT_EQ(data[i], static_cast<float>(i));
}

TEST(MpiProcessGroup, SmallThingsAmongManyRanksGoThroughTrees) {
  MpiProcessGroup group(MPI_COMM_WORLD, {.few_ranks = 1});
  for (const std::size_t bytes : {0, 1, 1000, 70'000}) {  // the last one is not small
    const std::string mine(bytes, static_cast<char>('a' + group.rank()));
    const std::vector<std::string> all = all_gather_bytes(group, mine);
    for (int r = 0; r < group.size(); ++r)
      EXPECT_EQ(all.at(static_cast<std::size_t>(r)), std::string(bytes, static_cast<char>('a' + r)));
    EXPECT_EQ(broadcast_bytes(group, mine), std::string(bytes, 'a'));
    group.barrier();
  }
  std::vector<std::int64_t> in_place(static_cast<std::size_t>(group.size()));
  std::int64_t* const own = &in_place[static_cast<std::size_t>(group.rank())];
  *own = 7 + group.rank();
  group.all_gather(own, in_place.data(), 1, DType::int64)->wait();
  for (int r = 0; r < group.size(); ++r) EXPECT_EQ(in_place[static_cast<std::size_t>(r)], 7 + r);
}

TEST(MpiProcessGroup, ManyCollectivesDoNotRunOutOfTags) {
  MpiProcessGroup group(MPI_COMM_WORLD);
  std::vector<std::int32_t> all(static_cast<std::size_t>(group.size()));
  for (std::int32_t i = 0; i < 40'000; ++i) {
    const std::int32_t mine = i + group.rank();
    group.all_gather(&mine, all.data(), 1, DType::int32)->wait();
    ASSERT_EQ(all.back(), i + group.size() - 1);
  }
}

TEST(MpiProcessGroup, SixteenBitFloatsAreReduced) {
  MpiProcessGroup group(MPI_COMM_WORLD);
  std::vector<BFloat16> data(300, to_bfloat16(static_cast<float>(group.rank() + 1)));
  group.all_reduce(data.data(), 300, DType::bfloat16, ReduceOp::sum)->wait();
  const int n = group.size();
  for (const BFloat16 x : data) ASSERT_EQ(to_float(x), static_cast<float>(n * (n + 1) / 2));
}

TEST(MpiProcessGroup, ATimeOutNamesTheActivityAndTheRanksThatDidNotCome) {
  MpiProcessGroup world(MPI_COMM_WORLD);
  if (world.size() < 2) GTEST_SKIP() << "needs two ranks";
  MpiProcessGroup group(MPI_COMM_WORLD);
  const int late = group.size() - 1;
  if (group.rank() != late) {
    group.set_timeout(std::chrono::milliseconds(500));
    group.set_activity("the all-gather of unit 'h.3'");
    std::vector<float> mine(100'000), all(mine.size() * static_cast<std::size_t>(group.size()));
    const auto work = group.all_gather(mine.data(), all.data(), static_cast<std::int64_t>(mine.size()), DType::float32);
    group.set_activity("something else");
    try {
      work->wait();
      ADD_FAILURE() << "no error";
    } catch (const CommunicationError& error) {
      const std::string what = error.what();
      EXPECT_NE(what.find("the all-gather of unit 'h.3'"), std::string::npos) << what;
      EXPECT_NE(what.find(fmt::format("rank {} on host {} did not come", late, host_name())), std::string::npos)
          << what;
      EXPECT_NE(what.find("--collective-timeout"), std::string::npos) << what;
    }
    world.barrier();  // now the late one comes, and the messages can end
    work->wait();
  } else {
    world.barrier();
    std::vector<float> mine(100'000), all(mine.size() * static_cast<std::size_t>(group.size()));
    group.all_gather(mine.data(), all.data(), static_cast<std::int64_t>(mine.size()), DType::float32)->wait();
  }
}

TEST(MpiProcessGroup, ABarrierNamesTheRankThatDidNotComeToo) {
  MpiProcessGroup world(MPI_COMM_WORLD);
  if (world.size() < 2) GTEST_SKIP() << "needs two ranks";
  MpiProcessGroup group(MPI_COMM_WORLD);
  if (group.rank() != 0) {
    group.set_timeout(std::chrono::milliseconds(300));
    group.set_activity("the start");
    try {
      group.barrier();
      ADD_FAILURE() << "no error";
    } catch (const CommunicationError& error) {
      const std::string what = error.what();
      EXPECT_NE(what.find("waited 0.3 s in the start; rank 0 on host " + host_name()), std::string::npos) << what;
    }
  }
  world.barrier();
}

TEST(MpiProcessGroup, ASmallBroadcastNamesItsRoot) {
  MpiProcessGroup world(MPI_COMM_WORLD);
  if (world.size() < 2) GTEST_SKIP() << "needs two ranks";
  MpiProcessGroup group(MPI_COMM_WORLD);
  const int root = group.size() - 1;
  std::int64_t value = group.rank();
  if (group.rank() != root) {
    group.set_timeout(std::chrono::milliseconds(300));
    group.set_activity("the news");
    const auto work = group.broadcast(&value, 1, DType::int64, root);
    try {
      work->wait();
      ADD_FAILURE() << "no error";
    } catch (const CommunicationError& error) {
      const std::string what = error.what();
      EXPECT_NE(what.find(fmt::format("in the news; rank {} on host {}", root, host_name())), std::string::npos)
          << what;
    }
    world.barrier();  // now it comes
    group.set_timeout(std::chrono::seconds(60));
    work->wait();
  } else {
    world.barrier();
    group.broadcast(&value, 1, DType::int64, root)->wait();
  }
  EXPECT_EQ(value, root);
}

}  // namespace
}  // namespace shoal::comm

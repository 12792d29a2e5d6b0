// What an observer is told of the collectives of a group on the CPU.
#include "comm/collective_observer.h"

#include <gtest/gtest.h>

#include <vector>

#include "comm/process_group.h"
#include "core/timer.h"
#include "support/on_ranks.h"

namespace shoal::comm {
namespace {

using shoal::testing::on_ranks;

class Notes final : public CollectiveObserver {
 public:
  double now() const override { return 1e6 * timer_.seconds(); }
  void collective(const CollectiveRecord& record) override { records.push_back(record); }
  std::vector<CollectiveRecord> records;

 private:
  Timer timer_;
};

TEST(CollectiveObserver, HearsOfEachCollectiveOnceWithItsBytesAndTimes) {
  on_ranks([](ProcessGroup& world) {
    const auto group = world.split(0, {.name = "all"});
    const auto notes = std::make_shared<Notes>();
    group->set_observer(notes);
    const std::int64_t count = 3000, n = group->size();
    std::vector<float> part(count), whole(count * n), other(count * n);
    group->set_activity("unit 'h.0'");
    group->all_gather(part.data(), whole.data(), count, DType::float32)->wait();
    group->set_activity("unit 'h.1'");
    group->reduce_scatter(whole.data(), part.data(), count, DType::float32, ReduceOp::sum)->wait();
    group->all_reduce(part.data(), count, DType::float32, ReduceOp::sum)->wait();
    group->broadcast(part.data(), count, DType::float32, 0)->wait();
    const auto work = group->all_to_all(whole.data(), other.data(), count, DType::float32);
    ASSERT_EQ(notes->records.size(), 4u);  // not before it has been waited for
    work->wait();
    work->wait();  // nothing more to tell
    const std::vector<std::string> names{"all_gather", "reduce_scatter", "all_reduce", "broadcast", "all_to_all"};
    ASSERT_EQ(notes->records.size(), names.size());
    double time = 0;
    for (std::size_t i = 0; i < names.size(); ++i) {
      const CollectiveRecord& record = notes->records[i];
      EXPECT_EQ(record.collective, names[i]);
      EXPECT_EQ(record.group, "all");
      EXPECT_EQ(record.activity, i == 0 ? "unit 'h.0'" : "unit 'h.1'");
      EXPECT_EQ(record.bytes, 4 * count * (i == 2 || i == 3 ? 1 : n));
      EXPECT_GE(record.start, time);
      EXPECT_GE(record.end, record.start);
      time = record.end;
    }
  });
}

TEST(CollectiveObserver, IsLeftInPeaceWhenItIsTakenBack) {
  on_ranks([](ProcessGroup& world) {
    const auto notes = std::make_shared<Notes>();
    world.set_observer(notes);
    EXPECT_EQ(all_reduce(world, std::int64_t{1}, ReduceOp::sum), world.size());
    const auto part = world.split(world.rank());  // its parts are observed like itself
    EXPECT_EQ(all_reduce(*part, std::int64_t{1}, ReduceOp::sum), 1);
    world.set_observer(nullptr);
    EXPECT_EQ(all_reduce(world, std::int64_t{2}, ReduceOp::sum), 2 * world.size());
    EXPECT_EQ(notes->records.size(), 2u);
  });
}

}  // namespace
}  // namespace shoal::comm

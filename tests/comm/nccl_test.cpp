// Every collective of NCCL against arithmetic on one rank, in every kind of group and memory.
#include <numeric>

#include "comm/device_mesh.h"
#include "nccl_fixture.h"

namespace shoal::comm {
namespace {

using testing::Bytes;
using testing::check;
using testing::Values;

const std::int64_t kCounts[] = {0, 1, 5, 1000, 5001, (1 << 16) + 3};
const std::int64_t kAlignedCounts[] = {0, 16, 48, 1008, 5008, (1 << 16) + 16};  // of 16 bytes in every type
constexpr std::int64_t kMostBytes = 4 * ((1 << 16) + 16) * 8;                   // on four ranks

std::int64_t element(int rank, std::int64_t i) { return (i * 7 + rank * 3) % 11; }

// Values 0 … n-1 of rank r's array, from element `from` on.
Values elements(int rank, std::int64_t from, std::int64_t n) {
  Values values(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) values[static_cast<std::size_t>(i)] = element(rank, from + i);
  return values;
}

// Two buffers of one group, and its collectives on values of the host.
class Bench {
 public:
  Bench(ProcessGroup& group, std::shared_ptr<void> in, std::shared_ptr<void> out, cudaStream_t stream)
      : group_(&group), in_(std::move(in)), out_(std::move(out)), stream_(stream) {}

  void check_all(DType dtype, std::int64_t count) {
    SCOPED_TRACE(fmt::format("{} {} of group '{}' ({})", count, name_of(dtype), group_->name(), group_->describe()));
    all_gather(dtype, count, false);
    all_gather(dtype, count, true);
    all_to_all(dtype, count);
    broadcast(dtype, count);
    if (dtype == DType::int16 || dtype == DType::boolean) return;  // these are moved only
    reduce_scatter(dtype, count);
    all_reduce(dtype, count);
  }

 private:
  void load(void* to, const Values& values, DType dtype) {
    const Bytes bytes = testing::encode(values, dtype);
    check(cudaMemcpyAsync(to, bytes.data(), bytes.size(), cudaMemcpyHostToDevice, stream_));
  }
  void expect(const void* from, const Values& expected, DType dtype, const char* what) {
    Bytes bytes(expected.size() * static_cast<std::size_t>(size_of(dtype)));
    check(cudaMemcpyAsync(bytes.data(), from, bytes.size(), cudaMemcpyDeviceToHost, stream_));
    check(cudaStreamSynchronize(stream_));
    EXPECT_TRUE(testing::decode(bytes, dtype) == expected) << what;
  }
  void poison(void* at, std::int64_t bytes) {
    check(cudaMemsetAsync(at, 0x77, static_cast<std::size_t>(bytes), stream_));
  }

  void all_gather(DType dtype, std::int64_t count, bool in_place) {
    const std::int64_t bytes = count * size_of(dtype);
    poison(out_.get(), bytes * group_->size());
    void* mine = in_place ? static_cast<std::byte*>(out_.get()) + group_->rank() * bytes : in_.get();
    load(mine, elements(group_->rank(), 0, count), dtype);
    group_->all_gather(mine, out_.get(), count, dtype)->wait();
    Values expected;
    for (int r = 0; r < group_->size(); ++r)
      for (std::int64_t i = 0; i < count; ++i) expected.push_back(element(r, i));
    expect(out_.get(), expected, dtype, in_place ? "all_gather in place" : "all_gather");
  }
  void all_to_all(DType dtype, std::int64_t count) {
    poison(out_.get(), count * size_of(dtype) * group_->size());
    load(in_.get(), elements(group_->rank(), 0, count * group_->size()), dtype);
    group_->all_to_all(in_.get(), out_.get(), count, dtype)->wait();
    Values expected;
    for (int r = 0; r < group_->size(); ++r)
      for (std::int64_t i = 0; i < count; ++i) expected.push_back(element(r, group_->rank() * count + i));
    expect(out_.get(), expected, dtype, "all_to_all");
  }
  void broadcast(DType dtype, std::int64_t count) {
    for (int root = 0; root < group_->size(); ++root) {
      load(in_.get(), elements(group_->rank(), 0, count), dtype);
      group_->broadcast(in_.get(), count, dtype, root)->wait();
      expect(in_.get(), elements(root, 0, count), dtype, "broadcast");
    }
  }
  void reduce_scatter(DType dtype, std::int64_t count) {
    poison(out_.get(), count * size_of(dtype));
    load(in_.get(), elements(group_->rank(), 0, count * group_->size()), dtype);
    group_->reduce_scatter(in_.get(), out_.get(), count, dtype, ReduceOp::sum)->wait();
    expect(out_.get(), reduced(group_->rank() * count, count, ReduceOp::sum), dtype, "reduce_scatter");
  }
  void all_reduce(DType dtype, std::int64_t count) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::min}) {
      load(in_.get(), elements(group_->rank(), 0, count), dtype);
      group_->all_reduce(in_.get(), count, dtype, op)->wait();
      expect(in_.get(), reduced(0, count, op), dtype, "all_reduce");
    }
  }
  Values reduced(std::int64_t from, std::int64_t count, ReduceOp op) const {
    Values result = elements(0, from, count);
    for (int r = 1; r < group_->size(); ++r) {
      for (std::int64_t i = 0; i < count; ++i) {
        std::int64_t& value = result[static_cast<std::size_t>(i)];
        const std::int64_t next = element(r, from + i);
        value = op == ReduceOp::sum   ? value + next
                : op == ReduceOp::max ? std::max(value, next)
                                      : std::min(value, next);
      }
    }
    return result;
  }

  ProcessGroup* group_;
  std::shared_ptr<void> in_, out_;
  cudaStream_t stream_;
};

class NcclCollectives : public testing::NcclTest {
 protected:
  // All collectives, types and counts, in memory that the group gave and in the user's own.
  void check_group(ProcessGroup& group) {
    const auto in = group.allocate(kMostBytes), out = group.allocate(kMostBytes);
    const auto plain_in = testing::plain_memory(kMostBytes), plain_out = testing::plain_memory(kMostBytes);
    for (const DType dtype : {DType::float64, DType::float32, DType::float16, DType::bfloat16, DType::int64,
                              DType::int32, DType::int16, DType::int8, DType::uint8, DType::boolean}) {
      for (const std::int64_t count : kAlignedCounts) Bench(group, in, out, stream()).check_all(dtype, count);
      for (const std::int64_t count : kCounts) Bench(group, plain_in, plain_out, stream()).check_all(dtype, count);
    }
  }
};

TEST_F(NcclCollectives, OfTheWholeJobEqualOneRanksArithmetic) { check_group(*make_world()); }

TEST_F(NcclCollectives, OfEveryKindOfGroupEqualOneRanksArithmetic) {
  const auto world = make_world();
  for (const Traffic traffic : {Traffic::mixed, Traffic::gather, Traffic::reduce})
    check_group(*world->split(0, {.name = "part", .traffic = traffic}));
}

TEST_F(NcclCollectives, OfGroupsOfOneAndTwoEqualOneRanksArithmetic) {
  const auto world = make_world();
  check_group(*world->split(world->rank(), {.name = "alone", .traffic = Traffic::gather}));
  check_group(*world->split(7 - world->rank() / 2, {.name = "pair", .traffic = Traffic::gather}));
}

TEST_F(NcclCollectives, OfGroupsWithSeveralRootsAndNonblockingCallsEqualOneRanksArithmetic) {
  const auto world = make_world({.ranks_per_root = 1, .blocking_calls = false});
  check_group(*world->split(0, {.name = "nonblocking", .traffic = Traffic::gather}));
}

TEST_F(NcclCollectives, InAllocatedMemoryTakeWholeGrainsOnly) {
  const auto world = make_world();
  const auto group = world->split(0, {.name = "shard", .traffic = Traffic::gather});
  const auto plain = testing::plain_memory(1 << 16);
  const auto memory = group->allocate(1 << 16);
  auto* at = static_cast<std::byte*>(memory.get());
  EXPECT_THROW(group->all_gather(at, plain.get(), 5, DType::float16), InternalError);
  EXPECT_THROW(group->all_gather(plain.get(), at, 5, DType::float16), InternalError);
  EXPECT_THROW(group->reduce_scatter(at, plain.get(), 3, DType::float32, ReduceOp::sum), InternalError);
  EXPECT_THROW(group->all_to_all(at + 8, plain.get(), 4, DType::float32), InternalError);
  EXPECT_THROW(group->all_reduce(at + 4, 4, DType::float32, ReduceOp::sum), InternalError);
  EXPECT_THROW(group->broadcast(at + (1 << 16) - 1, 1, DType::uint8, 0), InternalError);
  group->all_gather(plain.get(), plain.get(), 0, DType::float16)->wait();
  world->broadcast(at + 4, 5, DType::uint8, 0)->wait();  // another group's: plain memory to this one
  group->all_gather(at + 16 * group->rank(), at, 16, DType::uint8)->wait();
  finish();
  world->barrier();
}

TEST_F(NcclCollectives, StartAfterWhatTheCallerQueuedAndEndBeforeWhatComesNext) {
  const auto world = make_world();
  const DeviceMesh mesh(control(), *world, world->size());
  const std::int64_t count = 1 << 20, n = world->size();
  const auto part = mesh.shard().allocate(count), whole = mesh.shard().allocate(count * n);
  std::vector<Bytes> seen(50, Bytes(static_cast<std::size_t>(count * n)));
  for (std::size_t step = 0; step < seen.size(); ++step) {  // nothing here waits on the host
    check(cudaMemsetAsync(part.get(), static_cast<int>(step + 3 * mesh.shard().rank()), count, stream()));
    mesh.shard().all_gather(part.get(), whole.get(), count, DType::uint8)->wait();
    check(cudaMemcpyAsync(seen[step].data(), whole.get(), seen[step].size(), cudaMemcpyDeviceToHost, stream()));
    check(cudaMemsetAsync(whole.get(), 0xEE, count * n, stream()));
  }
  finish();
  for (std::size_t step = 0; step < seen.size(); ++step)
    for (std::int64_t r = 0; r < n; ++r)
      for (const std::int64_t i : {std::int64_t{0}, count / 2, count - 1})
        ASSERT_EQ(std::to_integer<std::int64_t>(seen[step][r * count + i]), static_cast<std::int64_t>(step) + 3 * r);
}

TEST_F(NcclCollectives, GroupsSayWhatTheyAreAndGiveTheirMemoryBack) {
  const std::int64_t before = allocated_bytes();
  const auto world = make_world();
  const DeviceMesh mesh(control(), *world, world->size());
  const auto lines = mesh.describe();
  for (const std::string& line : lines) std::printf("[rank %d] %s\n", world->rank(), line.c_str());
  EXPECT_EQ(lines[0].rfind("shard: nccl 2.", 0), 0u) << lines[0];
  if (world->size() > 1) {
    EXPECT_NE(lines[0].find(", windows, copy engines"), std::string::npos) << lines[0];
    EXPECT_NE(lines[1].find(", windows, copy engines"), std::string::npos) << lines[1];
  }
  for (int i = 0; i < 20; ++i) {
    auto memory = mesh.shard().allocate(1'000'001 * (i + 1));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.get()) % 256, 0u);
    EXPECT_GE(allocated_bytes() - before, 1'000'001 * (i + 1));
  }
  EXPECT_EQ(allocated_bytes(), before);
  const auto kept = [&] { return world->split(0, {.name = "gone", .traffic = Traffic::gather})->allocate(1 << 22); }();
  check(cudaMemset(kept.get(), 1, 1 << 22));  // memory outlives its group
  world->barrier();
}

class Notes final : public CollectiveObserver {
 public:
  double now() const override { return std::chrono::duration<double, std::micro>(Clock::now() - start_).count(); }
  void collective(const CollectiveRecord& record) override { records.push_back(record); }
  std::vector<CollectiveRecord> records;

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

TEST_F(NcclCollectives, AreReportedWithTheirTimesOnTheStream) {
  const auto world = make_world();
  const auto group = world->split(0, {.name = "shard"});
  const auto memory = testing::plain_memory(1 << 26);
  group->all_reduce(memory.get(), 1 << 24, DType::float32, ReduceOp::max)->wait();  // before anybody looks
  const auto notes = std::make_shared<Notes>();
  group->set_observer(notes);
  const double begin = notes->now();
  for (int i = 0; i < 30; ++i) {
    group->set_activity(fmt::format("unit {}", i));
    group->all_reduce(memory.get(), 1 << 24, DType::float32, ReduceOp::max)->wait();
  }
  finish();
  group->set_observer(nullptr);
  group->barrier();  // not reported
  const double end = notes->now();
  ASSERT_EQ(notes->records.size(), 30u);
  double last = begin - 100;  // between the clock of the host and that of the GPU
  for (int i = 0; i < 30; ++i) {
    const CollectiveRecord& record = notes->records[static_cast<std::size_t>(i)];
    EXPECT_EQ(record.activity, fmt::format("unit {}", i));
    EXPECT_EQ(record.group, "shard");
    EXPECT_EQ(record.bytes, 1 << 26);
    EXPECT_GE(record.start, last);
    EXPECT_GT(record.end, record.start);
    last = record.end - 1;
  }
  EXPECT_LT(last, end + 100);
}

}  // namespace
}  // namespace shoal::comm

#include "data/loader.h"

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>

#include "core/error.h"
#include "data_layer/batches.h"

namespace shoal::data {
namespace {

using namespace std::chrono_literals;

// A batch is (epoch × 1000 + first index, number of indices). It counts the batches made; `fail_at` is the one that
// cannot be.
class CountingData final : public Dataset {
 public:
  explicit CountingData(int fail_at = -1) : fail_at_(fail_at) {}
  std::int64_t size() const override { return 1000; }
  std::uint32_t fingerprint() const override { return 0; }
  Batch batch(std::span<const std::int64_t> indices) const override { return epoch_batch(0, indices); }
  Batch epoch_batch(std::int64_t epoch, std::span<const std::int64_t> indices) const override {
    if (made++ == fail_at_) throw DataError("sample {} is bad", indices.front());
    const auto full = [](std::int64_t value) { return at::full({1}, value, at::kLong); };
    return {full(epoch * 1000 + indices.front()), full(std::ssize(indices))};
  }
  mutable std::atomic<int> made = 0;

 private:
  int fail_at_;
};

// Batches of one sample, `count` of them in each of two epochs.
Loader::NextRequest two_epochs(std::int64_t count) {
  return [count, i = std::int64_t{0}]() mutable -> std::optional<BatchRequest> {
    if (i == 2 * count) return std::nullopt;
    const std::int64_t at = i++;
    return BatchRequest{at / count, {at % count}};
  };
}

std::int64_t first_value(const std::optional<Batch>& batch) { return values(batch.value().inputs).front(); }

TEST(Loader, GivesTheBatchesInOrderThenNothing) {
  for (const int depth : {0, 1, 2, 100}) {
    const CountingData data;
    Loader loader(data, two_epochs(20), depth);
    for (std::int64_t epoch = 0; epoch < 2; ++epoch)
      for (std::int64_t i = 0; i < 20; ++i) EXPECT_EQ(first_value(loader.next()), epoch * 1000 + i);
    EXPECT_FALSE(loader.next().has_value());
    EXPECT_FALSE(loader.next().has_value());
  }
}

TEST(Loader, PreparesAheadButNoMoreThanItsDepth) {
  const CountingData data;
  Loader loader(data, two_epochs(50), 3);
  const auto made_in_time = [&](int expected) {
    for (int i = 0; i < 1000 && data.made < expected; ++i) std::this_thread::sleep_for(1ms);
    std::this_thread::sleep_for(20ms);  // it would go on now if it did
    return data.made.load();
  };
  EXPECT_EQ(made_in_time(3), 3);
  loader.next();
  EXPECT_EQ(made_in_time(4), 4);
}

TEST(Loader, AnErrorComesInThePlaceOfItsBatchAndInItsType) {
  for (const int depth : {0, 1, 5}) {
    const CountingData data(2);
    Loader loader(data, two_epochs(10), depth);
    EXPECT_EQ(first_value(loader.next()), 0);
    EXPECT_EQ(first_value(loader.next()), 1);
    try {
      loader.next();
      ADD_FAILURE() << "no error";
    } catch (const DataError& error) {
      EXPECT_STREQ(error.what(), "sample 2 is bad");
    }
    if (depth > 0) {
      EXPECT_THROW(loader.next(), DataError);
    }
  }
}

TEST(Loader, AnErrorOfTheRequestsComesToo) {
  const CountingData data;
  Loader loader(
      data, []() -> std::optional<BatchRequest> { throw std::out_of_range("no more"); }, 2);
  EXPECT_THROW(loader.next(), std::out_of_range);
}

TEST(Loader, StopsWhereverItIs) {
  for (int consumed = 0; consumed < 10; ++consumed) {
    const CountingData data;
    Loader loader(data, two_epochs(500), 2);
    for (int i = 0; i < consumed; ++i) loader.next();
  }
  const CountingData failing(0);
  const Loader unused(failing, two_epochs(5), 2);
}

}  // namespace
}  // namespace shoal::data

#include "core/watch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

namespace shoal {
namespace {

using namespace std::chrono_literals;

class Patient final : public Watched {
 public:
  std::optional<std::string> trouble() override {
    ++looks;
    if (ill) return "pulse lost";
    return std::nullopt;
  }
  std::atomic<bool> ill{false};
  std::atomic<int> looks{0};
};

TEST(Watch, RaisesTheAlarmOnceForTheOneThatIsInTrouble) {
  std::promise<std::string> heard;
  std::atomic<int> alarms{0};
  Watch watch(2ms, [&](const std::string& line) {
    ++alarms;
    heard.set_value(line);
  });
  Patient well, sick;
  watch.add(well);
  watch.add(sick);
  while (sick.looks < 3) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(alarms, 0);
  sick.ill = true;
  auto line = heard.get_future();
  ASSERT_EQ(line.wait_for(10s), std::future_status::ready);
  EXPECT_EQ(line.get(), "pulse lost");
  const int looks = well.looks;
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(alarms, 1);
  EXPECT_EQ(well.looks, looks);
  watch.remove(well);
  watch.remove(sick);
}

TEST(Watch, DoesNotLookAtWhatWasTakenAway) {
  Watch watch(1ms, [](const std::string&) { FAIL() << "no trouble was to be found"; });
  for (int i = 0; i < 50; ++i) {
    Patient patient;
    watch.add(patient);
    while (patient.looks < 1) std::this_thread::yield();
    watch.remove(patient);
    patient.ill = true;
    const int looks = patient.looks;
    std::this_thread::sleep_for(2ms);
    EXPECT_EQ(patient.looks, looks);
  }
}

TEST(Watch, EndsWithoutWaitingForItsPeriod) {
  const auto start = std::chrono::steady_clock::now();
  {
    Watch watch(1h, [](const std::string&) {});
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
}

TEST(Watch, ThatIsClearedLooksAtNobody) {
  std::atomic<int> alarms{0};
  Watch watch(1ms, [&](const std::string&) { ++alarms; });
  Patient first, second, third;
  watch.add(first);
  watch.add(second);
  watch.clear();
  first.ill = second.ill = true;
  const int looks = first.looks + second.looks;
  watch.add(third);
  while (third.looks < 3) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(first.looks + second.looks, looks);
  EXPECT_EQ(alarms, 0);
  watch.remove(third);
}

}  // namespace
}  // namespace shoal

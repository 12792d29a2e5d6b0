#include "launch/first_failure.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>
#include <vector>

#include "core/error.h"
#include "core/file_io.h"
#include "launch/run_records.h"
#include "launch/signal_safe_text.h"

namespace shoal::launch {
namespace {

namespace fs = std::filesystem;
using activity::Operation;

// AddressSanitizer, which was there before, prints its report and ends the process with a code of its own.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

class FirstFailure : public ::testing::Test {
 protected:
  FirstFailure() : folder_(fs::temp_directory_path() / fmt::format("shoal-failure-{}", getpid())) {
    fs::create_directories(folder_);
  }
  ~FirstFailure() override {
    keep_failures_in("", {});
    fs::remove_all(folder_);
  }
  fs::path file() const { return folder_ / "first_failure.attempt-000003.json"; }
  std::string text() { return read_text_file(file()); }
  FailureRecord recorded() { return parse_failure(text(), file().string()); }

  // As rank 2 at a certain place, in a process of its own; the status that it ends with.
  int status_of(const std::function<void()>& act) {
    const pid_t pid = fork();
    if (pid == 0) {
      activity::slot().rank = 2;
      activity::slot().leaving = activity::kStays;
      activity::name_units(std::vector<std::string>{"(root)", "h.6"});
      activity::begin_step(12);
      activity::enter(Operation::backward, 1);
      keep_failures_in(file(), {.attempt = 3, .host = "n7"});
      name_gpu_of_failures("0000:1b:00.0");
      record_crashes();
      if (std::freopen("/dev/null", "w", stderr) == nullptr) _exit(99);
      act();
      _exit(0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    return status;
  }

  fs::path folder_;
};

TEST_F(FirstFailure, SaysWhoWhereWhenAndWhy) {
  const double before = static_cast<double>(std::time(nullptr));
  EXPECT_EQ(status_of([] { record_failure(7, "quote \" backslash \\ line\nend \xc3\xa9 \xff"); }), 0);
  const FailureRecord record = recorded();
  EXPECT_EQ(record.attempt, 3);
  EXPECT_EQ(record.rank, 2);
  EXPECT_EQ(record.host, "n7");
  EXPECT_EQ(record.gpu, "0000:1b:00.0");
  EXPECT_EQ(record.exit_code, 7);
  EXPECT_EQ(record.reason, "quote \" backslash \\ line\nend \xc3\xa9 \xef\xbf\xbd");
  EXPECT_GE(record.time, before);
  EXPECT_LE(record.time, before + 60);
  const auto json = nlohmann::json::parse(text());
  EXPECT_EQ(json.at("where").at("operation"), "backward");
  EXPECT_EQ(json.at("where").at("unit"), 1);
  EXPECT_EQ(json.at("where").at("unit_name"), "h.6");
  EXPECT_EQ(json.at("where").at("step"), 12);
  EXPECT_EQ(json.at("told_by_rank"), 2);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1) << "a draft was left";
}

TEST_F(FirstFailure, TheFirstOneStays) {
  EXPECT_EQ(status_of([] { _exit(record_failure(7, "first") ? 0 : 1); }), 0);
  const std::string first = text();
  EXPECT_NE(status_of([] { _exit(record_failure(6, "second") ? 0 : 1); }), 0);
  EXPECT_EQ(text(), first);
}

TEST_F(FirstFailure, OfManyAtOnceExactlyOneWinsAndIsWhole) {
  std::vector<pid_t> all;
  for (int rank = 0; rank < 16; ++rank) {
    const pid_t pid = fork();
    if (pid == 0) {
      activity::slot().rank = rank;
      keep_failures_in(file(), {.attempt = 3, .host = "n7"});
      _exit(record_failure(rank + 1, std::string(1000, 'x')) ? 1 : 0);
    }
    all.push_back(pid);
  }
  int winners = 0;
  for (const pid_t pid : all) {
    int status = 0;
    waitpid(pid, &status, 0);
    winners += WEXITSTATUS(status);
  }
  EXPECT_EQ(winners, 1);
  EXPECT_EQ(recorded().exit_code, recorded().rank + 1);
}

TEST_F(FirstFailure, AnotherRanksFailureIsToldAsItsOwn) {
  EXPECT_EQ(status_of([] {
              activity::Reading other;
              other.rank = 5;
              other.operation = Operation::save;
              record_failure_of(other, "n8", 6, "gone");
            }),
            0);
  EXPECT_EQ(recorded().rank, 5);
  EXPECT_EQ(recorded().host, "n8");
  EXPECT_EQ(recorded().gpu, "");
  EXPECT_EQ(nlohmann::json::parse(text()).at("told_by_rank"), 2);
}

TEST_F(FirstFailure, AVeryLongReasonIsCutNotLost) {
  EXPECT_EQ(status_of([] { record_failure(1, std::string(100'000, '\x01')); }), 0);
  EXPECT_GT(recorded().reason.size(), 1000u);
}

TEST_F(FirstFailure, WithoutAFileNothingIsWritten) {
  EXPECT_EQ(status_of([] {
              keep_failures_in("", {});
              _exit(record_failure(1, "x") ? 1 : 0);
            }),
            0);
  EXPECT_TRUE(fs::is_empty(folder_));
}

// Not null: UndefinedBehaviorSanitizer would end the process before the signal comes.
volatile int* volatile g_nowhere = reinterpret_cast<volatile int*>(std::uintptr_t{0x40});

TEST_F(FirstFailure, CrashesAreRecordedAndEndAsBefore) {
  const struct {
    int signal;
    std::function<void()> act;
  } crashes[] = {{SIGSEGV, [] { *g_nowhere = 1; }},
                 {SIGABRT, [] { std::abort(); }},
                 {SIGFPE, [] { raise(SIGFPE); }},
                 {SIGBUS, [] { kill(getpid(), SIGBUS); }},
                 {SIGILL, [] { raise(SIGILL); }}};
  for (const auto& crash : crashes) {
    fs::remove(file());
    const int status = status_of(crash.act);
    EXPECT_TRUE(kSanitized || (WIFSIGNALED(status) && WTERMSIG(status) == crash.signal)) << status;
    const FailureRecord record = recorded();
    EXPECT_EQ(record.exit_code, 128 + crash.signal);
    EXPECT_NE(record.reason.find(std::string("SIG") + sigabbrev_np(crash.signal)), std::string::npos) << record.reason;
    EXPECT_EQ(nlohmann::json::parse(text()).at("where").at("unit_name"), "h.6");
  }
}

int overflow_stack(int depth) {
  volatile char room[4096];
  room[0] = static_cast<char>(depth);
  return depth < 0 ? room[0] : overflow_stack(depth + 1) + room[0];
}

TEST_F(FirstFailure, AStackThatRanOutIsRecorded) {
  if (kSanitized) GTEST_SKIP() << "AddressSanitizer has a stack of its own for its handlers";
  const int status = status_of([] { _exit(overflow_stack(1)); });
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) << status;
  EXPECT_EQ(recorded().exit_code, 128 + SIGSEGV);
}

TEST_F(FirstFailure, AnErrorThatAThreadDoesNotCatchIsRecordedByItsText) {
  const int status = status_of([] { std::thread([] { throw std::runtime_error("lost in a thread"); }).join(); });
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT) << status;
  EXPECT_NE(recorded().reason.find("lost in a thread"), std::string::npos) << recorded().reason;
}

TEST_F(FirstFailure, LeavingNowKeepsTheCodeAndTheReason) {
  const int status = status_of([] { leave_now(20, "told by the watch", std::chrono::milliseconds(10)); });
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 20) << status;
  EXPECT_EQ(recorded().reason, "told by the watch");
}

TEST_F(FirstFailure, LeavingForAnothersReasonRecordsNothing) {
  const int status = status_of([] { leave_now(6, "", std::chrono::milliseconds(10)); });
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 6) << status;
  EXPECT_FALSE(fs::exists(file()));
}

TEST(SignalSafeText, WritesNumbersAndStringsOfJson) {
  SignalSafeText<256> text;
  text << std::int64_t{0} << " " << std::int64_t{-17} << " " << std::numeric_limits<std::int64_t>::min() << " ";
  text.quoted("a\"b\\c\nd");
  EXPECT_EQ(text.view(), "0 -17 -9223372036854775808 \"a\\\"b\\\\c d\"");
  SignalSafeText<4> small;
  small << "123456";
  EXPECT_EQ(small.view(), "1234");
}

}  // namespace
}  // namespace shoal::launch

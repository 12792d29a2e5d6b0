// What a test program exits with.
#pragma once

#include <gtest/gtest.h>

namespace shoal::testing {

constexpr int kSkipped = 77;  // CTest shows it as skipped

// 0: passed, 1: failed, kSkipped: every test that was chosen skipped itself.
inline int exit_status(int gtest_result) {
  if (gtest_result != 0) return 1;
  const auto& all = *::testing::UnitTest::GetInstance();
  const bool nothing_ran = all.skipped_test_count() > 0 && all.successful_test_count() == 0;
  return nothing_ran ? kSkipped : 0;
}

}  // namespace shoal::testing

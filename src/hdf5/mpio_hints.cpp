#include "hdf5/mpio.h"

namespace shoal::hdf5 {

// NERSC's advice for files that all ranks share: docs.nersc.gov/performance/io/lustre.
MpioHints stripe_hints(std::int64_t file_bytes) {
  constexpr std::int64_t kGigabyte = 1'000'000'000;
  constexpr int kSmall = 8, kMedium = 24, kLarge = 72;
  if (file_bytes < kGigabyte) return {};
  const int stripes = file_bytes < 10 * kGigabyte ? kSmall : file_bytes < 100 * kGigabyte ? kMedium : kLarge;
  return {{"striping_factor", std::to_string(stripes)}, {"striping_unit", std::to_string(1 << 20)}};
}

}  // namespace shoal::hdf5

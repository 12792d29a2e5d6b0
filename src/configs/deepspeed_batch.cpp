#include "configs/deepspeed_parts.h"
#include "core/check.h"

namespace shoal::configs {
namespace {

constexpr const char* kTotal = "train_batch_size";
constexpr const char* kMicro = "train_micro_batch_size_per_gpu";
constexpr const char* kSteps = "gradient_accumulation_steps";

std::optional<std::int64_t> count_of(Section& root, const char* key) {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;  // keeps products within 64 bits
  const auto count = root.whole(key);
  SHOAL_CHECK(!count || (*count >= 1 && *count < kMost), OptionError, "{} is {}, but must be at least 1 and below {}",
              root.name(key), count.value_or(0), kMost);
  return count;
}

// What `total` samples of a step leave for each of `parts`.
std::int64_t share_of(const Section& root, std::int64_t total, std::int64_t parts, const std::string& what) {
  SHOAL_CHECK(total % parts == 0, OptionError, "{} is {}, which is no multiple of {}", root.name(kTotal), total, what);
  return total / parts;
}

}  // namespace

void translate_batch(Section& root, int ranks) {
  const auto total = count_of(root, kTotal);
  auto micro = count_of(root, kMicro), steps = count_of(root, kSteps);
  const std::string on_ranks = fmt::format("{} ranks", ranks);
  if (total && micro && steps) {
    SHOAL_CHECK(
        *total == *micro * *steps * ranks, OptionError,
        "{} is {}, but {} {} times {} {} times {} ranks make {}: they must be equal; leave one of the three out",
        root.name(kTotal), *total, kMicro, *micro, kSteps, *steps, ranks, *micro * *steps * ranks);
  } else if (total && micro) {
    steps = share_of(root, *total, *micro * ranks, fmt::format("{} {} times {}", kMicro, *micro, on_ranks));
  } else if (total) {
    const std::int64_t known_steps = steps.value_or(1);
    micro = share_of(root, *total, known_steps * ranks,
                     steps ? fmt::format("{} {} times {}", kSteps, known_steps, on_ranks) : on_ranks);
  }
  if (micro) root.set_number(root.has(kMicro) ? kMicro : kTotal, "batch-size", *micro);
  if (steps) root.set_number(root.has(kSteps) ? kSteps : kTotal, "accumulate", *steps);
}

}  // namespace shoal::configs

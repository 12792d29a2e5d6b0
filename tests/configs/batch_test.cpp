// DeepSpeed's rule for batches, against its own definition.
#include <optional>
#include <tuple>

#include "configs/config_text.h"

namespace shoal::configs {
namespace {

using Count = std::optional<int>;
struct Batch {
  int micro, steps;
};

// DeepSpeedConfig._set_batch_related_parameters and _batch_assertion: floors first, then what must hold.
std::optional<Batch> by_deepspeed(Count total, Count micro, Count steps, int ranks) {
  if (total && micro && !steps) {
    steps = *total / *micro / ranks;
  } else if (total && !micro) {
    if (!steps) steps = 1;
    micro = *total / ranks / *steps;
  } else if (!total) {
    if (!steps) steps = 1;
    total = *micro * *steps * ranks;
  }
  if (*micro < 1 || *steps < 1 || *total != *micro * *steps * ranks) return std::nullopt;
  return Batch{*micro, *steps};
}

std::string config_of(Count total, Count micro, Count steps) {
  std::string text = R"({"train_batch_size": )" + (total ? std::to_string(*total) : "\"auto\"");
  if (micro) text += R"(, "train_micro_batch_size_per_gpu": )" + std::to_string(*micro);
  if (steps) text += R"(, "gradient_accumulation_steps": )" + std::to_string(*steps);
  return text + "}";
}

void compare(Count total, Count micro, Count steps, int ranks) {
  if (!total && !micro) return;  // which DeepSpeed refuses, and here the command line says
  const std::string ours = meaning(deepspeed, config_of(total, micro, steps), ranks);
  const auto theirs = by_deepspeed(total, micro, steps, ranks);
  const std::string text = config_of(total, micro, steps) + " on " + std::to_string(ranks) + ": " + ours;
  if (!theirs) {
    EXPECT_TRUE(ours.starts_with("train_batch_size is ")) << text;
    return;
  }
  EXPECT_NE((ours + " ").find(" --batch-size " + std::to_string(theirs->micro) + " "), ours.npos) << text;
  const std::string accumulate = " --accumulate " + std::to_string(theirs->steps) + " ";
  const bool said = (ours + " ").find(accumulate) != ours.npos;
  EXPECT_TRUE(said || (theirs->steps == 1 && ours.find("--accumulate") == ours.npos)) << text;
}

TEST(DeepSpeedBatch, FollowsItsRule) {
  const Count kNumbers[] = {std::nullopt, 1, 2, 3, 4, 6, 12};
  for (const Count total : kNumbers)
    for (const Count micro : kNumbers)
      for (const Count steps : kNumbers)
        for (const int ranks : {1, 2, 3}) compare(total, micro, steps, ranks);
}

TEST(DeepSpeedBatch, SaysWhatDoesNotDivide) {
  EXPECT_EQ(meaning(deepspeed, config_of(10, 4, std::nullopt), 2),
            "train_batch_size is 10, which is no multiple of train_micro_batch_size_per_gpu 4 times 2 ranks");
  EXPECT_EQ(meaning(deepspeed, config_of(10, std::nullopt, std::nullopt), 4),
            "train_batch_size is 10, which is no multiple of 4 ranks");
  EXPECT_EQ(
      meaning(deepspeed, config_of(32, 4, 4), 4),
      "train_batch_size is 32, but train_micro_batch_size_per_gpu 4 times gradient_accumulation_steps 4 times 4 ranks "
      "make 64: they must be equal; leave one of the three out");
  EXPECT_EQ(meaning(deepspeed, R"({"train_batch_size": 0})"),
            "train_batch_size is 0, but must be at least 1 and below 2147483648");
}

}  // namespace
}  // namespace shoal::configs

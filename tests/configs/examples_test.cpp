// The configs of tests/configs/data mean what is written beside them.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "configs/accelerate.h"
#include "configs/deepspeed.h"

namespace shoal::configs {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::string meaning_of(const fs::path& file) {
  constexpr int kRanks = 4;
  const bool yaml = file.extension() == ".yaml";
  const Translation all = yaml ? translate_accelerate(file, kRanks) : translate_deepspeed(file, kRanks);
  std::string text = command_line(all.settings) + "\n";
  for (const Setting& setting : all.settings)
    if (!setting.only_with.empty()) text += "--" + setting.option + " only with --" + setting.only_with + "\n";
  const std::string warning = warning_of(all);
  return warning.empty() ? text : text + warning + "\n";
}

TEST(Examples, MeanWhatIsWrittenBesideThem) {
  fs::current_path(SHOAL_CONFIGS);
  int count = 0;
  for (const auto& entry : fs::recursive_directory_iterator(".")) {
    if (entry.path().extension() != ".yaml" && entry.path().extension() != ".json") continue;
    EXPECT_EQ(meaning_of(entry.path()), text_of(entry.path().string() + ".expected")) << entry.path();
    ++count;
  }
  EXPECT_EQ(count, 22);
}

}  // namespace
}  // namespace shoal::configs

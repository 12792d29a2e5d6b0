// Configs written in a test, translated.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "configs/accelerate.h"
#include "configs/deepspeed.h"
#include "core/error.h"
#include "support/temporary_folder.h"

namespace shoal::configs {

inline std::filesystem::path written(const testing::TemporaryFolder& folder, const char* name,
                                     const std::string& text) {
  const auto path = folder.path() / name;
  std::ofstream(path) << text;
  return path;
}

inline Translation accelerate(const std::string& text, int ranks = 4) {
  const testing::TemporaryFolder folder;
  return translate_accelerate(written(folder, "a.yaml", text), ranks);
}

inline Translation deepspeed(const std::string& text, int ranks = 4) {
  const testing::TemporaryFolder folder;
  return translate_deepspeed(written(folder, "ds.json", text), ranks);
}

// "--strategy full_shard …", or the error's text after the file's name.
template <typename Translate>
std::string meaning(const Translate& translate, const std::string& text, int ranks = 4) {
  try {
    return command_line(translate(text, ranks).settings).substr(std::string("shoal train").size());
  } catch (const OptionError& error) {
    const std::string what = error.what();
    EXPECT_EQ(error.exit_code(), ExitCode::usage);
    EXPECT_EQ(what.find('\n'), what.npos) << what;
    return what.substr(what.find(": ") + 2);
  }
}

}  // namespace shoal::configs

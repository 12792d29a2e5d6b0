// The command line of shoal-tokenize.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/token_writer.h"

namespace shoal::apps {

struct TokenizeOptions {
  std::vector<std::filesystem::path> texts;
  std::string tokenizer;
  data::TokenOutput output;  // its type is not known yet
  bool append_end_of_text = false, force = false;
};

// Prints the help and returns false where it was asked for. OptionError, in one line, for everything that is not
// understood.
bool parse_tokenize_options(const std::vector<std::string>& arguments, TokenizeOptions& options);

}  // namespace shoal::apps

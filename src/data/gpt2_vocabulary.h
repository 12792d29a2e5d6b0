// GPT-2's merges as OpenAI published them, within the library.
#pragma once

#include <string_view>

namespace shoal::data {

std::string_view gpt2_merges();

}  // namespace shoal::data

// Token files in memory, and what an error must say.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "core/error.h"

namespace shoal::data {

// first, first + 1, …
inline std::vector<std::int64_t> counting(std::int64_t first, std::int64_t count) {
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

template <typename T>
std::string bytes_of_tokens(const std::vector<std::int64_t>& tokens) {
  std::string bytes;
  for (const std::int64_t token : tokens) {
    const T value = static_cast<T>(token);
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  return bytes;
}

template <typename ErrorType, typename Action, typename... Parts>
void expect_error(const Action& action, const Parts&... parts) {
  try {
    action();
    ADD_FAILURE() << "no error";
  } catch (const ErrorType& error) {
    const std::string message = error.what();
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    for (const std::string& part : {std::string(parts)...})
      EXPECT_NE(message.find(part), std::string::npos) << "'" << part << "' is not in: " << message;
  }
}

}  // namespace shoal::data

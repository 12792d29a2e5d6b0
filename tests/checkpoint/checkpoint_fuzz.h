// A fuzz target and what it starts from; the first byte of an input says what the rest of it stands for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"

std::vector<std::string> fuzz_seeds();  // sound inputs, one of each kind

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace shoal::testing {

inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

// What must hold for the input's kind; a CheckpointError with a reason may be thrown, and nothing else.
using FuzzChecks = std::map<char, std::function<void(const std::string& bytes)>>;

inline int check_input(const FuzzChecks& checks, const std::uint8_t* data, std::size_t size) {
  const auto check = size == 0 ? checks.end() : checks.find(static_cast<char>(data[0]));
  if (check == checks.end()) return 0;
  try {
    check->second({reinterpret_cast<const char*>(data) + 1, size - 1});
  } catch (const CheckpointError& error) {
    require(std::string_view(error.what()).size() > 10, "an error without a reason");
  }
  return 0;
}

}  // namespace shoal::testing

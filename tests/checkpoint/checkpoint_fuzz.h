// The fuzz target and what it starts from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

std::vector<std::string> fuzz_seeds();  // sound inputs, one of each kind

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

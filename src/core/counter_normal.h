// Normal numbers that are a function of a key and a place: any part of a sequence can be made by any thread or rank.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace shoal {

// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011): four words for a
// counter of four and a key of two, all lowest word first.
std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

// values[i] = std * z(key, begin + i), with z from N(0, 1), cut off at 5.8 by the 24 bits that it is made of. The same
// bits on every machine: single precision with neither contraction nor functions of the system's library.
//
// Number n is the word w = n / 256 % 4 of philox4x32({n / 1024 * 256 + n % 256, 0, 0}, key), the first two words of the
// counter being one number of 64 bits. Words 0 and 1, and 2 and 3, are the two uniform numbers of a Box-Muller pair
// (Box and Muller 1958), whose cosine is the number of the first and whose sine that of the second. That order lets
// vector units work on neighbours.
void fill_normal(std::span<float> values, std::uint64_t key, std::int64_t begin, float std);

}  // namespace shoal

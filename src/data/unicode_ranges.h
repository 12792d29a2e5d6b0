// The letters and the numbers of Unicode, as runs of code points.
#pragma once

#include <cstdint>
#include <span>

namespace shoal::data {

// Of the general categories L and N: pairs of numbers, the code points between the end of the run before (0 at first)
// and this run, and the code points in it.
std::span<const std::uint32_t> letter_runs();
std::span<const std::uint32_t> number_runs();

}  // namespace shoal::data

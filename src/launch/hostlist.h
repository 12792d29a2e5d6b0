// Slurm's short forms for the hosts of a job ("n[08,10-12]") and for a number on each of them ("4(x2),3").
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shoal::launch {

// What an environment that nobody vouches for may make us allocate. Slurm's own limit is as many ranges.
inline constexpr std::size_t kMaxHosts = std::size_t{1} << 18;
inline constexpr std::size_t kMaxHostName = 255;  // characters, as in DNS

// The hosts in Slurm's order, duplicates kept; none for a blank text.
//
//   list   = item { (comma | whitespace)+ item }          a comma within brackets separates ranges
//   item   = text { "[" ranges "]" text }                 several brackets: all combinations
//   ranges = range { "," range },  range = low [ "-" high ]   decimal, padded with zeros to the width of `low`
//
// Of several brackets the last changes fastest, and of the others the first before the second and so on: that is what
// Slurm's recursion makes of them, and counts per node pair up with that order. The boxes of multi-dimensional
// clusters ("[000x133]") are an error.
//
// OptionError, with the place, for everything else and beyond the limits above.
std::vector<std::string> expand_hostlist(std::string_view text);

// The shortest form that Slurm itself would print: expand_hostlist() of it gives the same hosts in the same order. Only
// neighbours in the list are merged. OptionError for a name that no list could hold (empty, or with a comma in it,
// say).
std::string compress_hostlist(const std::vector<std::string>& hosts);

// "4(x2),3" is 4, 4, 3. OptionError, with the place, for everything that Slurm would not print, and for more than
// kMaxHosts numbers.
std::vector<int> expand_counts(std::string_view text);

}  // namespace shoal::launch

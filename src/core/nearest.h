// The nearest of the known words to one that is mistyped.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shoal {

// The number of letters to insert, remove or replace to make `b` of `a`; swapping two neighbours counts as one
// (Damerau and Levenshtein, in the restricted form).
std::size_t edit_distance(std::string_view a, std::string_view b);

// "" where none is near: a third of the word's letters may be wrong, and two in any case.
std::string nearest(std::string_view word, const std::vector<std::string>& known);

// "; did you mean 'NAME'?", or `otherwise` where nothing is near. `prefix` is put before the name ("--").
std::string did_you_mean(std::string_view word, const std::vector<std::string>& known, std::string_view otherwise = "",
                         std::string_view prefix = "");

}  // namespace shoal

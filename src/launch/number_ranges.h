// Numbers as people write them: "0-2,5".
#pragma once

#include <string>
#include <vector>

namespace shoal::launch {

// `numbers` in rising order. Where the text would be longer than `longest`, its middle is left out and the number of
// numbers is put behind it: "0,8,...,1016 (128)".
std::string ranges_text(const std::vector<int>& numbers, std::size_t longest = 40);

}  // namespace shoal::launch

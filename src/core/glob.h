// Shell patterns on dotted names, as --wrap, --no-decay and --param-group take them.
#pragma once

#include <string_view>

namespace shoal {

// '*' and '?' stay within a part of the name, "**" crosses dots: "h.*.weight" does not take "h.0.attn.weight".
bool glob_matches(std::string_view pattern, std::string_view name);

}  // namespace shoal

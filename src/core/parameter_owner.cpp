#include "core/parameter_owner.h"

namespace shoal {

void lent_by_owner(void* /*owner*/) noexcept {}

}  // namespace shoal

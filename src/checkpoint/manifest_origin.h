// When and by what a manifest is written: for people.
#pragma once

#include "checkpoint/manifest.h"

namespace shoal::checkpoint {

// Fills in `created` and `libraries`.
void note_origin(Manifest& manifest);

}  // namespace shoal::checkpoint

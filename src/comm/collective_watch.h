// The name under which comm knows the watch.
#pragma once

#include "core/watch.h"

namespace shoal::comm {
using shoal::Watched;
using CollectiveWatch = Watch;
}  // namespace shoal::comm

// One body of work for many things, in several threads.
#pragma once

#include <cstddef>
#include <functional>

namespace shoal::checkpoint {

// Calls body(index, worker) for each index below `count` once, in ascending order of their beginnings, on `workers`
// threads; `tick` meanwhile on the calling thread, several times a second. After an exception nothing new is begun, and
// the first one is thrown when all have ended.
void in_workers(int workers, std::size_t count, const std::function<void(std::size_t index, int worker)>& body,
                const std::function<void()>& tick = {});

}  // namespace shoal::checkpoint

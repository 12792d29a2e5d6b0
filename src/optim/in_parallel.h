// Work on the host, shared among LibTorch's threads.
#pragma once

#include <cstdint>
#include <functional>

namespace shoal::optim {

// Calls work(begin, end) on at::get_num_threads() threads, for ranges that make up [0, count), of `grain` at least but
// for one that is all. Blocks; an exception of `work` comes out.
void in_parallel(std::int64_t count, std::int64_t grain,
                 const std::function<void(std::int64_t begin, std::int64_t end)>& work);

}  // namespace shoal::optim

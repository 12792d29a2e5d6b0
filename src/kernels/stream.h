// How a caller that knows nothing of CUDA names a stream.
#pragma once

namespace shoal::kernels {

using Stream = void*;  // a cudaStream_t: work is queued on it in order, and the call returns at once

}  // namespace shoal::kernels

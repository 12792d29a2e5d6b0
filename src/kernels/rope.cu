#include "kernels/rope.h"

#include <algorithm>

#include "kernels/packs.cuh"

namespace shoal::kernels {
namespace {

constexpr int kThreads = 256, kWarp = 32;

// A block turns one place: a thread takes packs of a head's first half and those that they are paired with.
template <typename T, int kSize>
__global__ void __launch_bounds__(kThreads) rotate_kernel(Rotation args) {
  const std::int64_t place = blockIdx.x, position = place % args.length;
  const int half = args.d / 2, packs = half / kSize;
  const T* x = static_cast<const T*>(args.x) + place * args.row_stride;
  T* out = static_cast<T*>(args.out) + place * args.heads * args.d;
  const T* cos = static_cast<const T*>(args.cos) + position * args.d;
  const T* sin = static_cast<const T*>(args.sin) + position * args.d;
  const float direction = args.backward ? -1 : 1;
  for (int i = threadIdx.x; i < args.heads * packs; i += blockDim.x) {
    const int column = i % packs * kSize, first = i / packs * args.d + column;
    const Pack<T, kSize> a = load_pack<kSize>(x + first), b = load_pack<kSize>(x + first + half);
    const Pack<T, kSize> c = load_pack<kSize>(cos + column), s = load_pack<kSize>(sin + column);
    float turned_a[kSize], turned_b[kSize];
#pragma unroll
    for (int k = 0; k < kSize; ++k) {
      const float from_a = to_float(a.values[k]), from_b = to_float(b.values[k]);
      const float cosine = to_float(c.values[k]), sine = direction * to_float(s.values[k]);
      turned_a[k] = from_a * cosine - from_b * sine;
      turned_b[k] = from_b * cosine + from_a * sine;
    }
    store_floats(out + first, turned_a);
    store_floats(out + first + half, turned_b);
  }
}

// Whole packs in each half of a head, and each of them aligned.
bool takes_packs(const Rotation& args, int size) {
  return args.d % (2 * size) == 0 && args.row_stride % size == 0 && is_pack_aligned(args.x) &&
         is_pack_aligned(args.cos) && is_pack_aligned(args.sin) && is_pack_aligned(args.out);
}

template <typename T, int kSize>
void launch(const Rotation& args, cudaStream_t stream) {
  const int packs = args.heads * (args.d / 2 / kSize);
  const int threads = std::min(kThreads, (packs + kWarp - 1) / kWarp * kWarp);
  rotate_kernel<T, kSize><<<static_cast<unsigned>(args.places), threads, 0, stream>>>(args);
  check_launch("rotate");
}

}  // namespace

void rotate(const Rotation& args, Stream stream) {
  if (args.places == 0 || args.heads == 0 || args.d == 0) return;
  const auto queue = static_cast<cudaStream_t>(stream);
  with_type(args.dtype, "rotate", [&](auto type) {
    using T = decltype(type);
    constexpr int kSize = kPackBytes / sizeof(T);
    if (takes_packs(args, kSize))
      launch<T, kSize>(args, queue);
    else
      launch<T, 1>(args, queue);
  });
}

}  // namespace shoal::kernels

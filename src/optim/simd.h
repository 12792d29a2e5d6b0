// Loops compiled once for each vector width and chosen at run time by what the processor has.
//
// A kernel is a struct with a static, always inlined run(arguments…). Contraction to fused multiply-add is off for
// the files that use this (CMakeLists.txt), so that every width gives the same bits: a job restarts alike on any node.
#pragma once

#include <utility>

namespace shoal::optim {

#if defined(__x86_64__) && defined(__GNUC__)
#define SHOAL_X86 1

template <typename Kernel, typename... Args>
__attribute__((target("avx512f,avx512vl,avx512dq"))) auto run_avx512(Args... args) {
  return Kernel::run(args...);
}
template <typename Kernel, typename... Args>
__attribute__((target("avx2"))) auto run_avx2(Args... args) {
  return Kernel::run(args...);
}

inline bool has_avx512() {
  static const bool has =
      __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  return has;
}
inline bool has_avx2() {
  static const bool has = __builtin_cpu_supports("avx2");
  return has;
}

template <typename Kernel, typename... Args>
auto run_widest(Args... args) {
  if (has_avx512()) return run_avx512<Kernel>(args...);
  if (has_avx2()) return run_avx2<Kernel>(args...);
  return Kernel::run(args...);
}

#else  // one width for all processors of the architecture

template <typename Kernel, typename... Args>
auto run_widest(Args... args) {
  return Kernel::run(args...);
}

#endif

}  // namespace shoal::optim

// How fast each collective is by memory and policy. Not a test: run with --gtest_also_run_disabled_tests.
#include "core/timer.h"
#include "nccl_fixture.h"

namespace shoal::comm {
namespace {

using testing::check;

class NcclSpeed : public testing::NcclTest {
 protected:
  enum class Call { all_gather, all_to_all, reduce_scatter };

  std::unique_ptr<Work> start(ProcessGroup& group, Call call, std::byte* in, std::byte* out, std::int64_t whole) {
    const std::int64_t count = whole / 2 / group.size();  // bf16
    switch (call) {
      case Call::all_gather: return group.all_gather(out + group.rank() * count * 2, out, count, DType::bfloat16);
      case Call::all_to_all: return group.all_to_all(in, out, count, DType::bfloat16);
      case Call::reduce_scatter: return group.reduce_scatter(in, out, count, DType::bfloat16, ReduceOp::sum);
    }
    return nullptr;
  }

  // Milliseconds a call on the stream, and microseconds of the host.
  std::pair<double, double> measure(ProcessGroup& group, Call call, std::byte* in, std::byte* out, std::int64_t whole) {
    constexpr int kCalls = 20;
    for (int i = 0; i < 5; ++i) start(group, call, in, out, whole)->wait();
    finish();
    control().barrier();
    const Timer timer;
    for (int i = 0; i < kCalls; ++i) start(group, call, in, out, whole)->wait();
    const double host = timer.seconds();
    finish();
    return {1e3 * timer.seconds() / kCalls, 1e6 * host / kCalls};
  }

  static constexpr std::int64_t kMost = 436 << 20;  // a unit of Llama-8B in 16 bits; 14 and 61 MB: GPT-2 124M, 1.5B

  void print_group(const char* what, ProcessGroup& group) {
    const auto in = group.allocate(kMost), out = group.allocate(kMost);
    print_memory(what, group, in.get(), out.get());
  }

  void print_memory(const char* what, ProcessGroup& group, void* in, void* out) {
    check(cudaMemset(in, 0, kMost));
    for (const auto& [name, call] : {std::pair{"all_gather", Call::all_gather},
                                     {"all_to_all", Call::all_to_all},
                                     {"reduce_scatter", Call::reduce_scatter}}) {
      for (const std::int64_t whole : {std::int64_t{1} << 14, std::int64_t{14} << 20, std::int64_t{61} << 20, kMost}) {
        const auto [ms, us] = measure(group, call, static_cast<std::byte*>(in), static_cast<std::byte*>(out), whole);
        if (control().rank() == 0)
          std::printf("%-28s %-14s %9.3f MB  %8.3f ms  %7.1f GB/s  host %6.1f us\n", what, name,
                      static_cast<double>(whole) / (1 << 20), ms, static_cast<double>(whole) / ms / 1e6, us);
      }
    }
  }
};

// GB/s of the whole bytes: what of them crosses the links is (ranks - 1) / ranks. all_to_all is what 16-bit gradients
// go by; the reducing group's two rows show what windows would do for them, and to reduce_scatter.
TEST_F(NcclSpeed, DISABLED_ByMemoryAndPolicy) {
  {
    const auto world = make_world({.windows = false});
    print_group("plain", *world->split(0, {.name = "plain"}));
  }
  {
    const auto world = make_world({.windows = false, .blocking_calls = false});
    print_group("plain, nonblocking calls", *world->split(0, {.name = "nonblocking"}));
  }
  const auto world = make_world();
  print_group("windows", *world->split(0, {.name = "windows"}));
  print_group("windows, copy engines", *world->split(0, {.name = "engines", .traffic = Traffic::gather}));
  {
    const auto reducing = make_world();
    const auto group = reducing->split(0, {.name = "reduce", .traffic = Traffic::reduce});
    const auto in = testing::plain_memory(kMost), out = testing::plain_memory(kMost);
    print_memory("copy engines, plain memory", *group, in.get(), out.get());
    print_memory("copy engines, result plain", *group, group->allocate(kMost).get(), out.get());
  }
}

TEST_F(NcclSpeed, DISABLED_OfMakingGroups) {
  control().barrier();
  Timer timer;
  const auto world = make_world();
  const double made = timer.seconds();
  timer.restart();
  const auto group = world->split(0, {.name = "shard", .traffic = Traffic::gather});
  const double parted = timer.seconds();
  timer.restart();
  const auto memory = group->allocate(std::int64_t{436} << 20);
  const double allocated = timer.seconds();
  timer.restart();
  group->barrier();
  if (control().rank() == 0)
    std::printf("world %.3f s, split %.3f s, a window of 436 MB %.3f s, first collective %.3f s\n", made, parted,
                allocated, timer.seconds());
}

}  // namespace
}  // namespace shoal::comm

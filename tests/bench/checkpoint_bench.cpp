// What saving and loading cost beside plain writers and readers of the same bytes on the same file system, as ratios
// within one run.
//   mpirun -n RANKS checkpoint_bench DIRECTORY MIB_A_RANK [rounds [read_workers]]      JSON lines of rank 0
// The state is that of a GPT-2 with AdamW: 150 parameters and two moments of each, fp32, cut evenly. dcp_bench.py
// beside this file does the same with PyTorch's DCP.
#include <fcntl.h>
#include <fmt/core.h>
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <thread>
#include <vector>

#include "checkpoint/checkpointer.h"
#include "comm/mpi_process_group.h"
#include "core/crc32c.h"
#include "core/file_io.h"
#include "core/timer.h"

namespace {

using namespace shoal;
namespace fs = std::filesystem;

constexpr int kParameters = 150;

// As a model has it: memory begins on a page, regions on multiples of 64 bytes. Where the place in memory and the place
// in the file differ modulo 32, the kernel of some machines copies at half its speed, for plain readers as well.
constexpr std::int64_t kGrainElements = 16;
constexpr std::size_t kPage = 4096;

struct Held {
  std::vector<float> storage;
  std::span<float> memory;  // of that
  StateDict state;          // of regions there
};

void make_state(Held& held, int rank, int ranks, std::int64_t bytes) {
  const std::int64_t count = bytes / (3 * kParameters) / 4 / kGrainElements * kGrainElements;
  const auto elements = static_cast<std::size_t>(count * 3 * kParameters);
  held.storage.resize(elements + kPage / sizeof(float));
  const auto begin = reinterpret_cast<std::uintptr_t>(held.storage.data());
  held.memory = std::span(held.storage).subspan((kPage - begin % kPage) % kPage / sizeof(float), elements);
  for (std::size_t i = 0; i < held.memory.size(); ++i)
    held.memory[i] = static_cast<float>(i % 1000003) + static_cast<float>(rank);
  auto* at = reinterpret_cast<std::byte*>(held.memory.data());
  for (const char* kind : {"model/", "optimizer/exp_avg/", "optimizer/exp_avg_sq/"}) {
    for (int p = 0; p < kParameters; ++p) {
      ShardedTensor tensor;
      tensor.spec = {fmt::format("{}h.{}.weight", kind, p), DType::float32, {count * ranks}};
      tensor.rule = {"u", 0, count};
      tensor.region.begin = count * rank;
      tensor.region.count = count;
      tensor.region.data = at;
      held.state.tensors.push_back(tensor);
      at += count * 4;
    }
  }
}

StateDict views_of(const Held& held) {
  StateDict state;
  state.tensors = held.state.tensors;
  return state;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// Seconds until all ranks have done it.
double seconds_of(comm::ProcessGroup& world, const std::function<void()>& body) {
  world.barrier();
  const Timer timer;
  body();
  world.barrier();
  return timer.seconds();
}

void write_plainly(const fs::path& path, const Held& held) {
  OutputFile file(path);
  const auto* data = reinterpret_cast<const std::byte*>(held.memory.data());
  const auto bytes = static_cast<std::int64_t>(held.memory.size() * sizeof(float));
  for (std::int64_t done = 0; done < bytes; done += kChunkBytes)
    file.write_at(done, data + done, static_cast<std::size_t>(std::min(kChunkBytes, bytes - done)));
  file.sync();
  file.close();
}

void read_plainly(const fs::path& path, Held& held) {
  const InputFile file(path);
  auto* data = reinterpret_cast<std::byte*>(held.memory.data());
  const auto bytes = static_cast<std::int64_t>(held.memory.size() * sizeof(float));
  for (std::int64_t done = 0; done < bytes; done += kChunkBytes)
    file.read_at(done, data + done, static_cast<std::size_t>(std::min(kChunkBytes, bytes - done)));
}

void drop_cache(const fs::path& folder) {
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    const int file = ::open(entry.path().c_str(), O_RDONLY);
    ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    ::close(file);
  }
}

// Old checkpoints are deleted in the background, beside what is measured next.
void await_deletion(comm::ProcessGroup& world, const fs::path& folder) {
  const auto under_way = [&] {
    return std::any_of(fs::directory_iterator(folder), fs::directory_iterator(), [](const auto& entry) {
      return entry.path().filename().string().find(".tmp.") != std::string::npos;
    });
  };
  world.barrier();
  while (world.rank() == 0 && under_way()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  world.barrier();
}

// All that write or read from the disk begin alike: a file system mounted with `discard` has told the disk of freed
// blocks, which it does after the journal is written, beside what is measured next; and the page cache gets memory that
// was in use just now (on a virtual machine the first touch of a page can cost more than to fill it).
void settle(comm::ProcessGroup& world, const fs::path& folder) {
  await_deletion(world, folder);
  if (world.rank() == 0) {
    ::sync();
    std::this_thread::sleep_for(std::chrono::seconds(1));
    drop_cache(folder);
  }
  world.barrier();
}

// By rank 0.
void print_medians(comm::ProcessGroup& world, std::int64_t mib, int workers,
                   const std::map<std::string, std::vector<double>>& seconds) {
  if (world.rank() != 0) return;
  std::map<std::string, double> middle;
  for (const auto& [what, values] : seconds) middle[what] = median(values);
  fmt::print("{{\"ranks\": {}, \"mib_a_rank\": {}, \"rounds\": {}, \"read_workers\": {}", world.size(), mib,
             seconds.at("save").size(), workers);
  for (const auto& [what, value] : middle) fmt::print(", \"{}_s\": {:.4f}", what, value);
  fmt::print(", \"save_over_plain\": {:.3f}, \"load_over_plain\": {:.3f}, \"load_from_disk_over_plain\": {:.3f}}}\n",
             middle["plain_write"] / middle["save"], middle["plain_read"] / middle["load"],
             middle["plain_read_from_disk"] / middle["load_from_disk"]);
}

// What is measured, in the folder `folder`; all of it collective over `world`.
class Bench {
 public:
  Bench(comm::ProcessGroup& world, const fs::path& folder, std::int64_t mib, int workers)
      : world_(world),
        folder_(folder),
        plain_(folder / fmt::format("plain_{}", world.rank())),
        checkpointer_(world, {.directory = folder,
                              .keep = 1,
                              .stage_bytes = std::int64_t{64} << 30,
                              .allocate_stage = {},
                              .read_workers = workers}) {
    make_state(held_, world.rank(), world.size(), mib << 20);
  }

  // Seconds of each.
  std::map<std::string, double> round(int round) {
    seconds_.clear();
    // In turns: a disk that is shared may be slower after so many bytes.
    if (round % 2 == 0) write_and_read();
    save_and_load(2 * round + 1);
    if (round % 2 == 1) write_and_read();
    settle(world_, folder_);
    time("plain_read_from_disk", [&] { read_plainly(plain_, held_); });
    settle(world_, folder_);
    time("load_from_disk", [&] { checkpointer_.restore(held_.state, "auto"); });
    settle(world_, folder_);
    time("async_start", [&] { checkpointer_.start_save(2 * round + 2, views_of(held_), "{}"); });
    time("async_copies", [&] { checkpointer_.await_copies(); });
    time("async_rest", [&] { checkpointer_.finish_save(); });
    return seconds_;
  }

 private:
  void time(const char* what, const std::function<void()>& body) { seconds_[what] = seconds_of(world_, body); }

  // As a save does, beside what is there until the new one is on the disk.
  void write_and_read() {
    const fs::path next = plain_.string() + ".next";
    settle(world_, folder_);
    time("plain_write", [&] { write_plainly(next, held_); });
    fs::rename(next, plain_);
    time("plain_read", [&] { read_plainly(plain_, held_); });
  }

  void save_and_load(std::int64_t step) {
    settle(world_, folder_);
    time("save", [&] { checkpointer_.save(step, views_of(held_), "{}"); });
    await_deletion(world_, folder_);
    time("load", [&] { checkpointer_.restore(held_.state, "auto"); });
  }

  comm::ProcessGroup& world_;
  fs::path folder_, plain_;
  Held held_;
  checkpoint::Checkpointer checkpointer_;
  std::map<std::string, double> seconds_;
};

void bench(comm::ProcessGroup& world, const fs::path& folder, std::int64_t mib, int rounds, int workers) {
  Bench bench(world, folder, mib, workers);
  std::map<std::string, std::vector<double>> seconds;
  bench.round(0);  // warms up
  for (int round = 1; round <= rounds; ++round)
    for (const auto& [what, value] : bench.round(round)) seconds[what].push_back(value);
  print_medians(world, mib, workers, seconds);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "usage: mpirun -n RANKS checkpoint_bench DIRECTORY MIB_A_RANK [rounds [read_workers]]\n");
    return 2;
  }
  MPI_Init(&argc, &argv);
  {
    comm::MpiProcessGroup world(MPI_COMM_WORLD);
    const fs::path folder = fs::path(argv[1]) / "checkpoint_bench";
    world.barrier();
    if (world.rank() == 0) fs::remove_all(folder);
    world.barrier();
    bench(world, folder, std::atoll(argv[2]), argc > 3 ? std::atoi(argv[3]) : 3, argc > 4 ? std::atoi(argv[4]) : 1);
    world.barrier();
    if (world.rank() == 0) fs::remove_all(folder);
  }
  MPI_Finalize();
}

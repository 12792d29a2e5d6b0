// What planning and committing a save cost, apart from the tensors' bytes, on the critical path of a job: the work of
// rank 0 and of the first rank of one shard file, with the other ranks simulated. Talk over a network is not in it.
//   manifest_bench DIRECTORY RANKS RANKS_A_HOST BLOCKS [rounds]      a JSON line, seconds as medians
// The state is that of a transformer with BLOCKS blocks of 12 parameters, two moments of each, cut as FSDP cuts it: a
// flat unit a block. Files are as many as unasked: a file a rank on one host, else a file a host, at most 512.
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <vector>

#include "checkpoint/attempt.h"
#include "checkpoint/file_groups.h"
#include "checkpoint/file_names.h"
#include "checkpoint/shard_layout.h"
#include "core/crc32c.h"
#include "core/timer.h"
#include "shard/shard_layout.h"

namespace {

using namespace shoal;
using namespace shoal::checkpoint;
namespace fs = std::filesystem;

constexpr std::int64_t kWidth = 1600;  // GPT-2 1.5B
constexpr const char* kKinds[] = {"model/", "optimizer/exp_avg/", "optimizer/exp_avg_sq/"};

std::vector<std::vector<std::int64_t>> block_shapes() {
  return {{kWidth}, {kWidth}, {kWidth, 3 * kWidth}, {3 * kWidth}, {kWidth, kWidth},     {kWidth},
          {kWidth}, {kWidth}, {kWidth, 4 * kWidth}, {4 * kWidth}, {4 * kWidth, kWidth}, {kWidth}};
}

// Without memory: nothing is read or written.
StateDict state_of(int blocks, int ranks, int rank) {
  std::vector<std::int64_t> numels;
  for (const auto& shape : block_shapes()) numels.push_back(TensorSpec{"", DType::float32, shape}.numel());
  const ShardLayout layout(numels, ranks);
  StateDict state;
  for (const char* kind : kKinds)
    for (int block = 0; block < blocks; ++block)
      for (std::size_t i = 0; i < numels.size(); ++i) {
        const TensorSlice slice = layout.slice(i, rank);
        ShardedTensor tensor;
        tensor.spec = {fmt::format("{}h.{}.{}.weight", kind, block, i), DType::float32, block_shapes()[i]};
        tensor.rule = {fmt::format("h.{}", block), layout.tensor(i).begin, layout.shard_numel()};
        tensor.region.begin = slice.tensor_begin;
        tensor.region.count = slice.count;
        state.tensors.push_back(std::move(tensor));
      }
  return state;
}

struct Job {
  int ranks, hosts, blocks;
  std::vector<std::string> host_of;
};

// The first rank of file 0 and its members.
void lay_out(const Job& job, const std::vector<int>& file, const Attempt& attempt, int files,
             std::map<std::string, double>& seconds) {
  std::vector<StateDict> members;
  for (int rank = 0; rank < job.ranks; ++rank)
    if (file[static_cast<std::size_t>(rank)] == 0) members.push_back(state_of(job.blocks, job.ranks, rank));
  const Timer timer;
  std::vector<RegionTable> tables;
  for (const StateDict& member : members) tables.push_back(table_of(member));
  const ShardHeader header{attempt.id, attempt.step, 0, files, job.ranks};
  lay_out_shard(attempt.path / header.file_name(), header, members[0], merge(tables).rows);
  seconds["layout_of_a_file"] = timer.seconds();
}

// The files of the others, which rank 0 looks at.
std::vector<ShardFile> other_files(const Job& job, const Attempt& attempt, int files) {
  std::vector<ShardFile> described;
  for (int index = 0; index < files; ++index) {
    const std::string name = shard_file_name(attempt.id, index, files == job.ranks);
    OutputFile made = index == 0 ? OutputFile::open_existing(attempt.path / name) : OutputFile(attempt.path / name);
    if (index > 0) made.resize(1 << 20);
    described.push_back({name, made.size(), 100, 0});
  }
  return described;
}

std::map<std::string, double> save(const Job& job, const fs::path& directory, std::int64_t step) {
  std::map<std::string, double> seconds;
  Timer timer;
  const std::vector<int> file = file_of_ranks(job.host_of, 0);
  const int files = 1 + *std::max_element(file.begin(), file.end());
  seconds["files_of_ranks"] = timer.seconds();
  timer.restart();
  const Attempt attempt = begin_attempt(directory, step);
  seconds["begin"] = timer.seconds();
  lay_out(job, file, attempt, files, seconds);
  const StateDict state = state_of(job.blocks, job.ranks, 0);
  const std::vector<ShardFile> described = other_files(job, attempt, files);
  timer.restart();
  Manifest manifest;
  manifest.id = attempt.id;
  manifest.sequence = attempt.sequence;
  manifest.step = step;
  manifest.ranks = job.ranks;
  for (const ShardedTensor& tensor : state.tensors) manifest.tensors.push_back({tensor.spec, tensor.rule});
  manifest.files = described;
  manifest.training_state = "{}";
  commit(attempt, manifest);
  seconds["commit"] = timer.seconds();
  timer.restart();
  tidy_up(directory, {1, 0}, nullptr, {}, [](const fs::path&) {});  // the deletion is in the background
  seconds["tidy_up"] = timer.seconds();
  for (const auto& entry : fs::directory_iterator(directory))  // of what it has set aside
    if (entry.path().filename().string().find(".tmp.") != std::string::npos) fs::remove_all(entry.path());
  return seconds;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    fmt::print(stderr, "usage: manifest_bench DIRECTORY RANKS RANKS_A_HOST BLOCKS [rounds]\n");
    return 2;
  }
  Job job{std::atoi(argv[2]), std::atoi(argv[2]) / std::atoi(argv[3]), std::atoi(argv[4]), {}};
  for (int rank = 0; rank < job.ranks; ++rank)
    job.host_of.push_back(fmt::format("node{:05}", rank / std::atoi(argv[3])));
  const fs::path directory = fs::path(argv[1]) / "manifest_bench";
  fs::remove_all(directory);
  std::map<std::string, std::vector<double>> all;
  for (int round = 0; round < (argc > 5 ? std::atoi(argv[5]) : 5); ++round) {
    double total = 0;
    for (const auto& [what, value] : save(job, directory, round + 1)) {
      all[what].push_back(value);
      total += value;
    }
    all["total"].push_back(total);
  }
  fmt::print("{{\"ranks\": {}, \"hosts\": {}, \"tensors\": {}", job.ranks, job.hosts, 36 * job.blocks);
  for (const auto& [what, values] : all) fmt::print(", \"{}_s\": {:.4f}", what, median(values));
  fmt::print("}}\n");
  fs::remove_all(directory);
}

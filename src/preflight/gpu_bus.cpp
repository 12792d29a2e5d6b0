#include "preflight/gpu_bus.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "core/error.h"

namespace shoal::preflight {
namespace {

constexpr const char* kActivity = "the all-reduce of the GPUs";
constexpr std::chrono::milliseconds kStartsWithin{90000};

// Each rank takes its GPU; a record for each, those without are skipped.
CheckResult take_gpus(Context& context, int device, bool required) {
  CheckResult check{.name = "nccl"};
  check.records = context.gather(kActivity, [&]() -> Record {
    if (device < 0) return {.verdict = Verdict::skipped, .found = "no GPU", .code = ExitCode::device};
    take_gpu(device);
    return {.code = ExitCode::device};
  });
  const auto without = std::count_if(check.records.begin(), check.records.end(),
                                     [](const Record& record) { return record.verdict == Verdict::skipped; });
  check.summary = "no GPU that CUDA can use";
  if (without == context.size() && !required) return check;
  for (Record& record : check.records) {
    if (record.verdict != Verdict::skipped) continue;
    record.verdict = Verdict::fail;
    record.found = "this rank has no GPU that CUDA can use";
    record.advice = "ask for GPUs on all nodes (srun --gpus-per-task=1), and look at CUDA_VISIBLE_DEVICES";
  }
  check.summary = worst_of(check) == Verdict::fail ? "not every rank has a GPU" : "";
  return check;
}

std::vector<BusSpeed> exchange(Context& context, const BusSpeed& mine) {
  std::vector<BusSpeed> speeds;
  for (const std::string& text :
       context.exchange(kActivity, fmt::format("{} {} {}", mine.node, mine.job, mine.wrong_sum ? 1 : 0))) {
    std::istringstream in(text);
    BusSpeed speed;
    in >> speed.node >> speed.job >> speed.wrong_sum;
    speeds.push_back(speed);
  }
  return speeds;
}

std::vector<Record> records_of(const std::vector<BusSpeed>& speeds, const std::vector<std::string>& hosts,
                               double BusSpeed::*value) {
  std::vector<Record> records;
  for (std::size_t rank = 0; rank < speeds.size(); ++rank) {
    if (speeds[rank].*value <= 0) continue;
    records.push_back({.host = hosts[rank],
                       .rank = static_cast<int>(rank),
                       .value = speeds[rank].*value,
                       .unit = "GB/s",
                       .code = ExitCode::device});
    if (!speeds[rank].wrong_sum) continue;
    records.back().verdict = Verdict::fail;
    records.back().found = "a sum over the GPUs is wrong";
    records.back().advice = "the hardware does not compute or move data right: leave the node out, and tell the site";
  }
  return records;
}

}  // namespace

double all_reduce_bus_bandwidth(double bytes, double seconds, int ranks) {
  return bytes / seconds * 2 * (ranks - 1) / ranks * 1e-9;
}

CheckResult judge_node_bus(const std::vector<BusSpeed>& speeds, const std::vector<std::string>& hosts) {
  CheckResult check{.name = "nccl.node", .summary = "one GPU a node: nothing to measure"};
  check.records = records_of(speeds, hosts, &BusSpeed::node);
  std::vector<double> values;
  for (const Record& record : check.records) values.push_back(*record.value);
  const double median = median_of(values);
  for (Record& record : check.records) {
    if (record.verdict == Verdict::fail || *record.value >= median / 2) continue;
    record.verdict = Verdict::fail;
    record.found = fmt::format("{:.3g} GB/s among its GPUs, the median is {:.3g}", *record.value, median);
    record.advice = "its NVLinks or PCIe are not what the others' are: leave the node out, and tell the site";
  }
  if (!check.records.empty()) check.summary = "busbw of an all-reduce within nodes " + range_of(check.records);
  return check;
}

CheckResult judge_job_bus(const std::vector<BusSpeed>& speeds, const std::vector<std::string>& hosts) {
  CheckResult check{.name = "nccl.job", .summary = "one GPU: nothing to measure"};
  check.records = records_of(speeds, hosts, &BusSpeed::job);
  if (!check.records.empty())
    check.summary = fmt::format("busbw of an all-reduce over {} GPUs {:.3g} GB/s", speeds.size(), speeds[0].job);
  return check;
}

std::vector<CheckResult> check_gpu_bus(Context& context, int device, bool required) {
  CheckResult taken = take_gpus(context, device, required);
  if (worst_of(taken) != Verdict::ok) return {taken};
  BusSpeed mine;
  std::string problem;
  context.begin(kActivity);
  context.world().set_timeout(std::min(context.remaining(), kStartsWithin));
  ExitCode code = ExitCode::device;
  try {
    mine = measure_all_reduce(context, device);
  } catch (const DeviceError& error) {
    problem = error.what();
  } catch (const CommunicationError& error) {
    problem = error.what();
    code = ExitCode::communication;
  }
  taken.records = context.gather(kActivity, [&]() -> Record {
    if (problem.empty()) return {};
    return {.verdict = Verdict::fail, .found = problem, .code = code};
  });
  taken.summary = "NCCL does not work here";
  if (worst_of(taken) == Verdict::fail) return {taken};
  const std::vector<BusSpeed> speeds = exchange(context, mine);
  return {judge_node_bus(speeds, context.hosts()), judge_job_bus(speeds, context.hosts())};
}

}  // namespace shoal::preflight

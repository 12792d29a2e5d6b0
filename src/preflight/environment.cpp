#include "preflight/environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <sstream>
#include <string_view>

namespace shoal::preflight {
namespace {

struct Harmful {
  const char *name, *value, *advice;
};
constexpr std::array kHarmful{
    Harmful{"MPICH_GPU_SUPPORT_ENABLED", "1", "MPI on GPU memory beside NCCL can deadlock: set it to 0"},
    Harmful{"CUDA_LAUNCH_BLOCKING", "1", "every kernel is waited for: unset it"},
    Harmful{"NCCL_P2P_DISABLE", "1", "GPUs of one node then exchange data through the host: unset it"},
    Harmful{"NCCL_SHM_DISABLE", "1", "ranks of one node then talk over the network: unset it"},
    Harmful{"NCCL_IB_DISABLE", "1", "NCCL then takes TCP between nodes: unset it where there is InfiniBand"},
    Harmful{"NCCL_DEBUG", "TRACE", "every call is logged: WARN tells what is wrong"},
    Harmful{"PYTORCH_NO_CUDA_MEMORY_CACHING", "1", "each allocation then waits for the GPU: unset it"},
};
constexpr std::array<std::string_view, 3> kTransport{"NCCL_", "UCX_", "FI_"};

Record warning(std::string found, std::string advice) {
  return {.verdict = Verdict::warn, .found = std::move(found), .advice = std::move(advice), .code = ExitCode::usage};
}

void judge_visible_devices(const launch::Variables& variables, std::vector<Record>& records) {
  const auto visible = variables.find("CUDA_VISIBLE_DEVICES");
  if (visible == variables.end()) return;
  std::set<std::string> seen;
  std::istringstream list(visible->second);
  for (std::string device; std::getline(list, device, ',');)
    if (!seen.insert(device).second)
      records.push_back(warning(fmt::format("CUDA_VISIBLE_DEVICES={} names {} twice", visible->second, device),
                                "CUDA then sees no GPU from there on: name each once"));
}

std::string to_text(const launch::Variables& variables) {
  std::string text;
  for (const auto& [name, value] : variables) text += name + '=' + value + '\0';
  return text;
}

launch::Variables parse_variables(const std::string& text) {
  launch::Variables variables;
  std::istringstream entries(text);
  for (std::string entry; std::getline(entries, entry, '\0');) {
    const std::size_t equals = entry.find('=');
    variables[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
  return variables;
}

std::string joined(const launch::Variables& variables) {
  std::string text;
  for (const auto& [name, value] : variables) text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, value);
  return text;
}

// What most ranks have of each variable; "": most have none.
std::map<std::string, std::string> usual_values(const std::vector<launch::Variables>& of_ranks) {
  std::map<std::string, std::map<std::string, std::size_t>> votes;
  for (const launch::Variables& variables : of_ranks)
    for (const auto& [name, value] : variables) ++votes[name][value];
  std::map<std::string, std::string> usual;
  for (auto& [name, counts] : votes) {
    std::size_t set = 0;
    for (const auto& [value, count] : counts) set += count;
    counts[""] += of_ranks.size() - set;
    const auto more = [](const auto& a, const auto& b) { return a.second < b.second; };
    usual[name] = std::max_element(counts.begin(), counts.end(), more)->first;
  }
  return usual;
}

}  // namespace

std::vector<Record> judge_variables(const launch::Variables& variables) {
  std::vector<Record> records;
  for (const Harmful& harmful : kHarmful) {
    const auto found = variables.find(harmful.name);
    if (found != variables.end() && found->second == harmful.value)
      records.push_back(warning(fmt::format("{}={}", harmful.name, harmful.value), harmful.advice));
  }
  judge_visible_devices(variables, records);
  return records;
}

launch::Variables transport_variables(const launch::Variables& variables) {
  launch::Variables transport;
  for (const auto& variable : variables)
    if (std::any_of(kTransport.begin(), kTransport.end(), [&](auto p) { return variable.first.starts_with(p); }))
      transport.insert(variable);
  return transport;
}

std::vector<Record> judge_differences(const std::vector<launch::Variables>& of_ranks,
                                      const std::vector<std::string>& hosts) {
  std::vector<Record> records;
  for (const auto& [name, usual] : usual_values(of_ranks)) {
    for (std::size_t rank = 0; rank < of_ranks.size(); ++rank) {
      const auto mine = of_ranks[rank].find(name);
      const std::string value = mine == of_ranks[rank].end() ? "" : mine->second;
      if (value == usual) continue;
      records.push_back(warning(fmt::format("{} is '{}', most ranks have '{}'", name, value, usual),
                                "ranks with other settings may not find each other: give all the same"));
      records.back().host = hosts[rank];
      records.back().rank = static_cast<int>(rank);
    }
  }
  return records;
}

CheckResult check_environment(Context& context, const launch::Variables& variables) {
  constexpr const char* kActivity = "the variables of the environment";
  CheckResult check{.name = "environment"};
  check.records = context.gather_all(kActivity, [&] {
    std::vector<Record> records = judge_variables(variables);
    if (records.empty()) records.push_back({});
    return records;
  });
  std::vector<launch::Variables> of_ranks;
  for (const std::string& text : context.exchange(kActivity, to_text(transport_variables(variables))))
    of_ranks.push_back(parse_variables(text));
  const std::vector<Record> differences = judge_differences(of_ranks, context.hosts());
  check.records.insert(check.records.end(), differences.begin(), differences.end());
  check.summary = of_ranks[0].empty() ? "no NCCL_*, UCX_*, FI_* is set" : joined(of_ranks[0]);
  return check;
}

}  // namespace shoal::preflight

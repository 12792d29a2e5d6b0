// shoal-env: tells who and where this process is. Needs neither Slurm nor MPI, LibTorch or a GPU.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/env_options.h"
#include "apps/run_program.h"
#include "core/host_name.h"
#include "core/logging.h"
#include "launch/hostlist.h"
#include "launch/machine.h"
#include "launch/number_ranges.h"
#include "launch/slurm_environment.h"

extern char** environ;

namespace shoal::apps {
namespace {

using Json = nlohmann::ordered_json;

// Variables that are not Slurm's and change what Shoal or a library below it does.
launch::Variables others(const launch::Variables& variables) {
  launch::Variables chosen;
  for (const auto& entry : variables)
    for (const char* prefix : {"SHOAL_", "NCCL_", "OMP_", "MPICH_", "UCX_", "FI_"})
      if (entry.first.starts_with(prefix)) chosen.insert(entry);
  return chosen;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

std::string cpu_text(const launch::CpuPlace& cpus) {
  return fmt::format("{} of {} logical CPUs ({} cores): {}; NUMA {}", cpus.cpus.size(), cpus.machine_cpus, cpus.cores,
                     launch::ranges_text(cpus.cpus), launch::ranges_text(cpus.numa));
}

// A value in the table is one line of what can be printed.
std::string cell(const launch::EnvironmentRow& row) {
  if (row.variable.empty()) return "-";
  std::string text = row.value;
  std::ranges::replace_if(
      text, [](char c) { return c < ' ' || c > '~'; }, '?');
  return text.empty() ? "''" : text;
}

std::string table(const launch::SlurmEnvironment& slurm, const launch::Variables& variables) {
  std::size_t name_width = 0, value_width = 0;
  for (const auto& row : slurm.rows) {
    name_width = std::max(name_width, row.name.size());
    value_width = std::max(value_width, cell(row).size());
  }
  value_width = std::min<std::size_t>(value_width, 40);
  std::string text;
  const auto line = [&](const std::string& name, const std::string& value, const std::string& from) {
    text += fmt::format("\n{:<{}}  {:<{}}  {}", name, name_width, value, value_width, from);
  };
  for (const auto& row : slurm.rows)
    line(row.name, cell(row), row.variable.empty() ? "not set: " + joined(row.looked_at) : row.variable);
  for (const auto& [name, value] : others(variables))
    line("", cell({.name = {}, .value = value, .variable = name, .looked_at = {}}), name);
  return text;
}

// In one piece, so that the tasks of a step do not mix their lines.
void print_text(const launch::SlurmEnvironment& slurm, const launch::CpuPlace& cpus,
                const launch::Variables& variables) {
  log::result("{}\nhost {}, {}\nprocess manager for MPI: {}\n{}", describe(slurm), host_name(), cpu_text(cpus),
              name_of(slurm.pmi), table(slurm, variables));
  for (const std::string& note : slurm.notes) log::warning("{}", note);
}

void print_json(const launch::SlurmEnvironment& slurm, const launch::CpuPlace& cpus,
                const launch::Variables& variables) {
  Json all{{"summary", describe(slurm)},
           {"context", name_of(slurm.context)},
           {"launcher", name_of(slurm.launcher)},
           {"pmi", name_of(slurm.pmi)},
           {"job", slurm.job_name_for_slurm()},
           {"host", host_name()},
           {"cpus", cpus.cpus},
           {"cores", cpus.cores},
           {"machine_cpus", cpus.machine_cpus},
           {"numa", cpus.numa},
           {"hosts", slurm.hosts ? Json(slurm.hosts->value) : Json()},
           {"tasks_per_node", slurm.tasks_per_node ? Json(slurm.tasks_per_node->value) : Json()},
           {"values", Json::array()},
           {"other_variables", others(variables)},
           {"faults", slurm.faults},
           {"notes", slurm.notes}};
  for (const auto& row : slurm.rows) {
    const bool is_set = !row.variable.empty();
    all["values"].push_back({{"name", row.name},
                             {"value", is_set ? Json(row.value) : Json()},
                             {"variable", is_set ? Json(row.variable) : Json()},
                             {"looked_at", row.looked_at}});
  }
  // Bytes that are no UTF-8 become U+FFFD: a variable may hold anything.
  log::print_result(all.dump(2, ' ', false, Json::error_handler_t::replace));
}

ExitCode show(bool json) {
  const launch::Variables variables = launch::read_environment(environ);
  const launch::SlurmEnvironment slurm = launch::read_slurm_environment(variables);
  const launch::CpuPlace cpus = launch::Machine().here();
  (json ? print_json : print_text)(slurm, cpus, variables);
  for (const std::string& fault : slurm.faults) log::error("{}", fault);
  return slurm.faults.empty() ? ExitCode::ok : ExitCode::usage;
}

ExitCode run(const std::vector<std::string>& arguments) {
  EnvOptions options;
  if (!parse_env_options(arguments, options)) return ExitCode::ok;
  if (options.expand) {
    std::string text;
    for (const std::string& host : launch::expand_hostlist(*options.expand)) text += host + "\n";
    if (!text.empty()) text.pop_back(), log::print_result(text);
    return ExitCode::ok;
  }
  if (!options.compress.empty()) {
    log::print_result(launch::compress_hostlist(options.compress));
    return ExitCode::ok;
  }
  return show(options.json);
}

}  // namespace
}  // namespace shoal::apps

int main(int argc, char** argv) {
  return static_cast<int>(shoal::apps::run_program([&] { return shoal::apps::run({argv + 1, argv + argc}); }));
}

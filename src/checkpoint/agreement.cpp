#include "checkpoint/agreement.h"

#include <exception>

#include "checkpoint/group_activity.h"
#include "core/check.h"

namespace shoal::checkpoint {
namespace {

// An outcome as it travels: one byte of exit code, then the result or the error's text.
std::string outcome(ExitCode code, const std::string& text) { return static_cast<char>(code) + text; }

std::string run(const std::function<std::string()>& body) {
  try {
    return outcome(ExitCode::ok, body());
  } catch (const Error& error) {
    return outcome(error.exit_code(), error.what());
  } catch (const std::exception& error) {
    return outcome(ExitCode::internal, error.what());
  }
}

// Adds to what the group says it does.
std::string with_phase(const std::string& activity, std::string_view phase) {
  if (phase.empty()) return activity;
  return fmt::format("{}{}{}", activity, activity.empty() ? "" : ": ", phase);
}

ExitCode code_of(const std::string& outcome) { return static_cast<ExitCode>(outcome.at(0)); }

[[noreturn]] void throw_of(ExitCode code, const std::string& text) {
  switch (code) {
    case ExitCode::io: throw IoError("{}", text);
    case ExitCode::checkpoint: throw CheckpointError("{}", text);
    case ExitCode::superseded: throw SupersededError("{}", text);
    case ExitCode::usage: throw OptionError("{}", text);
    default: throw Error(code, text);
  }
}

}  // namespace

std::vector<std::string> run_everywhere(comm::ProcessGroup& world, std::string_view phase, const Body& body) {
  const GroupActivity entered(world, with_phase(world.activity(), phase));
  std::vector<std::string> outcomes = comm::all_gather_bytes(world, run(body));
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    const ExitCode code = code_of(outcomes[rank]);
    outcomes[rank].erase(0, 1);
    if (code != ExitCode::ok) throw_of(code, fmt::format("rank {}: {}", rank, outcomes[rank]));
  }
  return outcomes;
}

std::string run_on_root(comm::ProcessGroup& world, std::string_view phase, const Body& body) {
  const GroupActivity entered(world, with_phase(world.activity(), phase));
  std::string result = comm::broadcast_bytes(world, world.rank() == 0 ? run(body) : std::string());
  const ExitCode code = code_of(result);
  result.erase(0, 1);
  if (code != ExitCode::ok) throw_of(code, result);
  return result;
}

std::vector<std::string> run_everywhere(comm::ProcessGroup& world, const Body& body) {
  return run_everywhere(world, {}, body);
}

std::string run_on_root(comm::ProcessGroup& world, const Body& body) { return run_on_root(world, {}, body); }

}  // namespace shoal::checkpoint

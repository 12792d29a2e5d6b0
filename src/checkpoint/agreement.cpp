#include "checkpoint/agreement.h"

#include <exception>

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

std::vector<std::string> run_everywhere(comm::ProcessGroup& world, const std::function<std::string()>& body) {
  std::vector<std::string> outcomes = comm::all_gather_bytes(world, run(body));
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    const ExitCode code = code_of(outcomes[rank]);
    outcomes[rank].erase(0, 1);
    if (code != ExitCode::ok) throw_of(code, fmt::format("rank {}: {}", rank, outcomes[rank]));
  }
  return outcomes;
}

std::string run_on_root(comm::ProcessGroup& world, const std::function<std::string()>& body) {
  std::string result = comm::broadcast_bytes(world, world.rank() == 0 ? run(body) : std::string());
  const ExitCode code = code_of(result);
  result.erase(0, 1);
  if (code != ExitCode::ok) throw_of(code, result);
  return result;
}

}  // namespace shoal::checkpoint

// shoal VERB …: finds the program shoal-VERB beside itself, or in ../libexec/shoal, and becomes it. Verbs are programs
// of their own so that each links only what it needs: `shoal ckpt` runs where there is neither MPI nor LibTorch.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "apps/cli_docs.h"
#include "apps/completion.h"
#include "apps/verb_programs.h"
#include "core/check.h"
#include "core/logging.h"
#include "core/nearest.h"

namespace {

namespace fs = std::filesystem;
using shoal::ExitCode;
using shoal::apps::is_program;
using shoal::apps::kProgramPrefix;
using shoal::apps::program_folders;
using shoal::apps::verbs_in;

struct Summary {
  std::string_view verb, text;
};
constexpr std::array kSummaries{
    Summary{"train", "train a model on the ranks of a job (start it by mpirun or srun)"},
    Summary{"plan", "what a job will need: memory of a rank by strategy, traffic, checkpoints"},
    Summary{"preflight", "is this allocation fit: nodes, network, file system, limits, GPUs"},
    Summary{"status", "how a run is getting on, from its run directory"},
    Summary{"report", "how runs went, as one file of HTML with plots"},
    Summary{"ckpt", "list, inspect, verify, compare, convert, prune and repair checkpoints"},
    Summary{"tokenize", "make a token file from text"},
    Summary{"env", "who and where this process is: what Slurm says, and with which variable"},
};

std::string usage(const std::set<std::string>& verbs) {
  std::string text = "Usage: shoal VERB [options]\n\nVerbs (shoal VERB --help tells more):\n";
  for (const std::string& verb : verbs) {
    const auto* known = std::ranges::find(kSummaries, verb, &Summary::verb);
    text += fmt::format("  {:<10} {}\n", verb, known != kSummaries.end() ? known->text : "");
  }
  return text + "\nOther options: --help, --version, --completion bash, --print-cli-docs\n";
}

// arguments[0] is replaced by the name of the program, which ps and top then show.
[[noreturn]] void become(const std::string& verb, char** arguments, const std::vector<fs::path>& folders) {
  std::string name = std::string(kProgramPrefix) + verb;
  arguments[0] = name.data();
  for (const fs::path& folder : folders) {
    const fs::path program = folder / name;
    if (!is_program(program)) continue;
    execv(program.c_str(), arguments);
    throw shoal::IoError("cannot start '{}': {}", program.string(), std::strerror(errno));
  }
  const std::set<std::string> verbs = verbs_in(folders);
  throw shoal::OptionError("there is no verb '{}'{}", verb,
                           shoal::did_you_mean(verb, {verbs.begin(), verbs.end()}, "; 'shoal --help' lists the verbs"));
}

std::vector<nlohmann::ordered_json> all_described(const std::vector<fs::path>& folders) {
  std::vector<nlohmann::ordered_json> all;
  for (const std::string& verb : verbs_in(folders))
    for (auto& described : shoal::apps::described_verbs(verb, folders)) all.push_back(std::move(described));
  return all;
}

// What is made out of the options of all verbs. Nothing where it is not asked for.
std::optional<std::string> generated(int argc, char** argv, const std::vector<fs::path>& folders) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "--print-cli-docs") return shoal::apps::cli_docs(all_described(folders));
  if (what != "--completion") return std::nullopt;
  SHOAL_CHECK(argc == 3 && std::string_view(argv[2]) == "bash", shoal::OptionError,
              "--completion takes the name of a shell: bash");
  return shoal::apps::bash_completion(verbs_in(folders), all_described(folders));
}

ExitCode run(int argc, char** argv) {
  const auto folders = program_folders();
  const std::string verb = argc > 1 ? argv[1] : "";
  if (verb == "--version") {
    fmt::print("shoal {}\n", SHOAL_VERSION);
    return ExitCode::ok;
  }
  if (verb == "--help" || verb == "-h" || (verb == "help" && argc == 2)) {
    fmt::print("{}", usage(verbs_in(folders)));
    return ExitCode::ok;
  }
  if (const auto text = generated(argc, argv, folders)) {
    fmt::print("{}", *text);
    return ExitCode::ok;
  }
  if (verb.empty()) {
    fmt::print(stderr, "{}", usage(verbs_in(folders)));
    return ExitCode::usage;
  }
  if (verb == "help") {
    std::string help = "--help";
    std::array<char*, 3> arguments{argv[2], help.data(), nullptr};
    become(argv[2], arguments.data(), folders);
  }
  become(verb, argv + 1, folders);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return static_cast<int>(run(argc, argv));
  } catch (const shoal::Error& error) {
    shoal::log::error("{}", error.what());
    return static_cast<int>(error.exit_code());
  } catch (const std::exception& error) {
    shoal::log::error("{}", error.what());
    return static_cast<int>(ExitCode::internal);
  }
}

// shoal VERB …: finds the program shoal-VERB beside itself, or in ../libexec/shoal, and becomes it. Verbs are programs
// of their own so that each links only what it needs: `shoal ckpt` runs where there is neither MPI nor LibTorch.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/logging.h"

namespace {

namespace fs = std::filesystem;
using shoal::ExitCode;

constexpr std::string_view kPrefix = "shoal-";

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

std::vector<fs::path> program_folders() {
  const fs::path here = fs::read_symlink("/proc/self/exe").parent_path();
  return {here, here.parent_path() / "libexec" / "shoal"};
}

bool is_program(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) && access(path.c_str(), X_OK) == 0;
}

std::set<std::string> verbs_in(const std::vector<fs::path>& folders) {
  std::set<std::string> verbs;
  for (const fs::path& folder : folders) {
    std::error_code absent;
    for (const auto& entry : fs::directory_iterator(folder, absent)) {
      const std::string name = entry.path().filename();
      if (name.starts_with(kPrefix) && is_program(entry)) verbs.insert(name.substr(kPrefix.size()));
    }
  }
  return verbs;
}

// The number of letters to insert, remove or replace (Levenshtein).
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] != b[j]);
      diagonal = std::exchange(row[j + 1], std::min({row[j] + 1, row[j + 1] + 1, replaced}));
    }
  }
  return row.back();
}

std::string hint_for(const std::string& verb, const std::set<std::string>& verbs) {
  const auto nearest = std::ranges::min_element(verbs, {}, [&](const auto& known) { return distance(verb, known); });
  const bool is_near = nearest != verbs.end() && distance(verb, *nearest) <= std::max<std::size_t>(2, verb.size() / 2);
  return is_near ? fmt::format("did you mean '{}'?", *nearest) : std::string("'shoal --help' lists the verbs");
}

std::string usage(const std::set<std::string>& verbs) {
  std::string text = "Usage: shoal VERB [options]\n\nVerbs (shoal VERB --help tells more):\n";
  for (const std::string& verb : verbs) {
    const auto* known = std::ranges::find(kSummaries, verb, &Summary::verb);
    text += fmt::format("  {:<10} {}\n", verb, known != kSummaries.end() ? known->text : "");
  }
  return text + "\nOther options: --help, --version\n";
}

// arguments[0] is replaced by the name of the program, which ps and top then show.
[[noreturn]] void become(const std::string& verb, char** arguments, const std::vector<fs::path>& folders) {
  std::string name = std::string(kPrefix) + verb;
  arguments[0] = name.data();
  for (const fs::path& folder : folders) {
    const fs::path program = folder / name;
    if (!is_program(program)) continue;
    execv(program.c_str(), arguments);
    throw shoal::IoError("cannot start '{}': {}", program.string(), std::strerror(errno));
  }
  throw shoal::OptionError("there is no verb '{}'; {}", verb, hint_for(verb, verbs_in(folders)));
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

#include <fmt/format.h>
#include <pwd.h>
#include <sys/quota.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <sstream>
#include <system_error>
#include <vector>

#include "preflight/mounts.h"
#include "preflight/space.h"

namespace shoal::preflight {
namespace {

constexpr std::chrono::milliseconds kPatience{10000};

// "1234*" is a number over its limit.
std::optional<double> number_in(std::string word) {
  if (!word.empty() && word.back() == '*') word.pop_back();
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return value;
}

// The hard limit where there is one, else the soft one; 0 means none.
std::optional<double> limit_of(double soft, double hard, double unit) {
  const double limit = hard > 0 ? hard : soft;
  return limit > 0 ? std::optional(limit * unit) : std::nullopt;
}

// NAME used soft hard grace files soft hard grace
std::optional<Quota> parse_line(const std::vector<std::string>& words) {
  constexpr std::array<std::size_t, 6> kPlaces{1, 2, 3, 5, 6, 7};
  if (words.size() < 8) return std::nullopt;
  std::array<double, 6> numbers{};
  for (std::size_t i = 0; i < kPlaces.size(); ++i) {
    const auto number = number_in(words[kPlaces[i]]);
    if (!number) return std::nullopt;
    numbers[i] = *number;
  }
  constexpr double kKiB = 1024;
  return Quota{.used_bytes = numbers[0] * kKiB,
               .limit_bytes = limit_of(numbers[1], numbers[2], kKiB),
               .used_files = numbers[3],
               .limit_files = limit_of(numbers[4], numbers[5], 1)};
}

std::string user_name() {
  const passwd* user = getpwuid(getuid());
  return user != nullptr ? user->pw_name : std::to_string(getuid());
}

std::optional<Quota> from_kernel(const Mount& mount, int& error) {
  struct dqblk block {};
  if (quotactl(QCMD(Q_GETQUOTA, USRQUOTA), mount.source.c_str(), static_cast<int>(getuid()),
               reinterpret_cast<char*>(&block)) != 0) {
    error = errno;
    return std::nullopt;
  }
  const auto number = [](auto value) { return static_cast<double>(value); };
  return Quota{.source = "quotactl",
               .used_bytes = number(block.dqb_curspace),
               .limit_bytes = limit_of(number(block.dqb_bsoftlimit), number(block.dqb_bhardlimit), 1024),
               .used_files = number(block.dqb_curinodes),
               .limit_files = limit_of(number(block.dqb_isoftlimit), number(block.dqb_ihardlimit), 1)};
}

bool leaves_less(const Quota& a, const Quota& b) {
  if (!a.limit_bytes || !b.limit_bytes) return a.limit_bytes.has_value();
  return *a.limit_bytes - a.used_bytes < *b.limit_bytes - b.used_bytes;
}

// Of the user's and the group's the one that leaves less.
std::optional<Quota> from_lustre(const std::filesystem::path& directory, std::string& none,
                                 const launch::CommandRunner& run) {
  std::optional<Quota> tightest;
  const std::array<std::array<std::string, 2>, 2> kinds{{{"-u", user_name()}, {"-g", std::to_string(getgid())}}};
  for (const auto& [kind, whose] : kinds) {
    const auto answer = run({"lfs", "quota", "-q", kind, whose, directory.string()}, kPatience);
    if (!answer.ok()) none = "'lfs quota': " + answer.problem(kPatience);
    auto quota = answer.ok() ? parse_quota(answer.output, "") : std::nullopt;
    if (!quota) continue;
    quota->source = "lfs quota " + kind;
    if (!tightest || leaves_less(*quota, *tightest)) tightest = quota;
  }
  if (!tightest && none.empty()) none = "'lfs quota' tells nothing here";
  return tightest;
}

}  // namespace

std::optional<Quota> parse_quota(const std::string& text, const std::string& name) {
  std::vector<std::string> words;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream in(line);
    for (std::string word; in >> word;) words.push_back(word);
    const bool is_whole = words.size() >= 8;
    if (is_whole && (name.empty() || words[0] == name))
      if (auto quota = parse_line(words)) return quota;
    // A long name stands on a line of its own, and the numbers on the next.
    if (words.size() != 1) words.clear();
  }
  return std::nullopt;
}

std::optional<Quota> read_quota(const std::filesystem::path& directory, const std::string& type, std::string& none,
                                const launch::CommandRunner& run) {
  const auto mount = find_mount(std::filesystem::absolute(directory));
  if (type == "lustre") return from_lustre(directory, none, run);
  if (!mount) {
    none = "the table of mounts cannot be read";
    return std::nullopt;
  }
  int error = 0;
  if (mount->source.starts_with('/'))
    if (auto quota = from_kernel(*mount, error)) return quota;
  if (const auto answer = run({"quota", "-w", "-p"}, kPatience); answer.ok()) {
    auto quota = parse_quota(answer.output, mount->source);
    if (quota) {
      quota->source = "quota";
      return quota;
    }
  }
  if (error == ESRCH)
    none = fmt::format("no quota on {}", mount->directory);
  else
    none = fmt::format("not known: {} has no quota that the kernel or the command 'quota' tells{}", type,
                       error != 0 ? " (" + std::generic_category().message(error) + ")" : "");
  return std::nullopt;
}

}  // namespace shoal::preflight

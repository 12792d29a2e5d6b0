#include "core/process_state.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

namespace shoal {
namespace {

std::uint64_t space_of_numbers() noexcept {
  struct stat status {};
  return stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

struct ProcStat {
  char state = '?';
  std::int64_t start = 0;
};

// /proc/N/stat: the name stands in parentheses and may hold any character; the state is the first field behind it, the
// time of start the twentieth.
std::optional<ProcStat> read_stat(std::int64_t number) noexcept {
  std::array<char, 64> path{};
  std::snprintf(path.data(), path.size(), "/proc/%lld/stat", static_cast<long long>(number));
  const int file = open(path.data(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  std::array<char, 1024> text{};
  const ssize_t got = ::read(file, text.data(), text.size() - 1);
  close(file);
  const char* at = got > 0 ? std::strrchr(text.data(), ')') : nullptr;
  if (!at || !at[1]) return std::nullopt;
  ProcStat result{.state = at[2]};
  constexpr int kFieldsToStart = 20;
  ++at;
  for (int field = 1; field < kFieldsToStart && at; ++field) at = std::strchr(at + 1, ' ');
  if (at) result.start = std::strtoll(at, nullptr, 10);
  return result;
}

}  // namespace

ProcessIdentity own_identity() noexcept {
  const auto stat = read_stat(getpid());
  return {getpid(), stat ? stat->start : 0, space_of_numbers()};
}

ProcessState state_of(const ProcessIdentity& process) noexcept {
  static const std::uint64_t kOurs = space_of_numbers();
  if (process.number <= 0 || process.space != kOurs) return ProcessState::unknown;
  const auto stat = read_stat(process.number);
  if (!stat)
    return kill(static_cast<pid_t>(process.number), 0) != 0 && errno == ESRCH ? ProcessState::ended
                                                                              : ProcessState::unknown;
  if (process.start != 0 && stat->start != process.start) return ProcessState::ended;
  switch (stat->state) {
    case 'T':
    case 't': return ProcessState::stopped;
    case 'Z':
    case 'X': return ProcessState::ended;
    default: return ProcessState::runs;
  }
}

}  // namespace shoal

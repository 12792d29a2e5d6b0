#include "launch/child_process.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>

#include "core/file_io.h"

extern char** environ;

namespace shoal::launch {
namespace {

using Clock = std::chrono::steady_clock;

// The two ends of a pipe that children do not inherit by themselves.
struct Pipe {
  Descriptor read, write;
  bool open() {
    std::array<int, 2> ends{-1, -1};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return false;
    read = Descriptor(ends[0]);
    write = Descriptor(ends[1]);
    return true;
  }
};

// The child has the signals of a fresh process, nothing to read, and a process group, by which all of it can be killed.
int spawn(const std::vector<std::string>& command, int output, int error, pid_t& child) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, error, STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  const int problem = posix_spawnp(&child, arguments[0], &files, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  return problem;
}

int milliseconds_until(Clock::time_point end) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 1'000'000));
}

// False once the stream has ended.
bool read_some(int descriptor, std::string& into) {
  constexpr std::size_t kMost = 1 << 20;
  std::array<char, 4096> piece;
  const ssize_t got = ::read(descriptor, piece.data(), piece.size());
  if (got < 0) return errno == EINTR || errno == EAGAIN;
  into.append(piece.data(), std::min(static_cast<std::size_t>(got), kMost - std::min(kMost, into.size())));
  return got > 0;
}

// Until both streams have ended, or the time is over.
void read_all(CommandResult& result, int output, int error, Clock::time_point end) {
  std::array<pollfd, 2> streams{pollfd{output, POLLIN, 0}, pollfd{error, POLLIN, 0}};
  while (streams[0].fd >= 0 || streams[1].fd >= 0) {
    if (Clock::now() >= end) return;
    if (::poll(streams.data(), streams.size(), milliseconds_until(end)) < 0 && errno != EINTR) return;
    if (streams[0].revents != 0 && !read_some(output, result.output)) streams[0].fd = -1;
    if (streams[1].revents != 0 && !read_some(error, result.error)) streams[1].fd = -1;
  }
}

// A command may close its streams and go on: its end has the same limit.
bool has_ended(pid_t child, int& status, Clock::time_point end) {
  for (;;) {
    const pid_t ended = ::waitpid(child, &status, WNOHANG);
    if (ended == child || (ended < 0 && errno != EINTR)) return true;
    if (Clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

std::string CommandResult::problem(std::chrono::milliseconds limit) const {
  if (!started) return error;
  if (timed_out) return fmt::format("did not answer within {:.3g} s", static_cast<double>(limit.count()) / 1000);
  const std::string& said = error.empty() ? output : error;
  return fmt::format("exit code {}{}{}", exit_code, said.empty() ? "" : ": ", first_line(said));
}

CommandResult run_command(const std::vector<std::string>& command, std::chrono::milliseconds limit) {
  CommandResult result;
  const auto end = Clock::now() + limit;
  Pipe output, error;
  pid_t child = -1;
  const bool piped = output.open() && error.open();
  const int problem = piped ? spawn(command, output.write.get(), error.write.get(), child) : errno;
  if (problem != 0) {
    result.error = fmt::format("cannot be started: {}", std::strerror(problem));
    return result;
  }
  result.started = true;
  output.write = {};
  error.write = {};
  read_all(result, output.read.get(), error.read.get(), end);
  int status = 0;
  result.timed_out = !has_ended(child, status, end);
  if (result.timed_out) {
    ::kill(-child, SIGKILL);
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
  }
  result.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return result;
}

}  // namespace shoal::launch

// Log lines for people, on standard error; results go to standard output through print_result().
// Rank 0 alone speaks at level info; warnings and errors of every rank are shown with the rank in front. A rank may
// have a file of its own for all that it logs.
#pragma once

#include <fmt/core.h>

#include <filesystem>
#include <string>
#include <utility>

namespace shoal::log {

enum class Level { info, warning, error };

// rank < 0: not (yet) part of a job; then nothing is put in front and info lines are shown.
void set_rank(int rank) noexcept;
void set_quiet(bool quiet) noexcept;  // hides info lines
void write(Level level, const std::string& line) noexcept;
// From now on every line of this rank, results and those that the console does not show included, is also appended to
// `file`, with the time in front; the lines of before come first (the newest 1000). What is there stays. IoError where
// it cannot be written. An empty path: no file any longer.
void append_to(const std::filesystem::path& file);
// One line on standard output, from rank 0 alone, flushed.
void print_result(const std::string& line) noexcept;

template <typename... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::info, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void warning(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::warning, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void error(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::error, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void result(fmt::format_string<Args...> format, Args&&... args) {
  print_result(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace shoal::log

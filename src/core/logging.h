// Log lines for people, on standard error; results go to standard output through print_result().
// Rank 0 alone speaks at level info; warnings and errors of every rank are shown with the rank in front.
#pragma once

#include <fmt/core.h>

#include <string>
#include <utility>

namespace shoal::log {

enum class Level { info, warning, error };

// rank < 0: not (yet) part of a job; then nothing is put in front and info lines are shown.
void set_rank(int rank) noexcept;
void set_quiet(bool quiet) noexcept;  // hides info lines
void write(Level level, const std::string& line) noexcept;
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

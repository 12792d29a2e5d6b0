#include "launch/run_directory.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <system_error>

#include "core/check.h"
#include "core/file_io.h"

namespace shoal::launch {
namespace fs = std::filesystem;
namespace {

constexpr const char* kAttempts = "attempts";
constexpr const char* kLogs = "logs";

std::string record_name(int attempt) { return fmt::format("{:06}.json", attempt); }

std::optional<int> number_of(const std::string& name) {
  int number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc() || number < 1 || name != record_name(number)) return std::nullopt;
  return number;
}

}  // namespace

void RunDirectory::make() const {
  for (const char* folder : {kAttempts, kLogs, "where"}) make_directories(root_ / folder);
}

fs::path RunDirectory::attempt(int attempt) const { return root_ / kAttempts / record_name(attempt); }

fs::path RunDirectory::log(int attempt, int rank) const {
  return root_ / kLogs / fmt::format("rank-{:04}.attempt-{:06}.log", rank, attempt);
}

fs::path RunDirectory::placement(int attempt) const {
  return root_ / fmt::format("placement.attempt-{:06}.json", attempt);
}

fs::path RunDirectory::first_failure(int attempt) const {
  return root_ / fmt::format("first_failure.attempt-{:06}.json", attempt);
}

std::vector<int> RunDirectory::attempts() const {
  std::vector<int> numbers;
  std::error_code error;
  fs::directory_iterator files(root_ / kAttempts, error);
  if (error == std::errc::no_such_file_or_directory) return numbers;
  for (; !error && files != fs::directory_iterator(); files.increment(error))
    if (const auto number = number_of(files->path().filename().string())) numbers.push_back(*number);
  SHOAL_CHECK(!error, IoError, "cannot read the directory {}: {}", (root_ / kAttempts).string(), error.message());
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

}  // namespace shoal::launch

#include "launch/run_directory.h"

#include <algorithm>
#include <charconv>
#include <chrono>
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

// What replace_text_file() leaves where it is killed. What cannot be removed, or not looked at, does no harm.
void remove_leftovers(const fs::path& folder) {
  constexpr std::chrono::hours kOld{1};
  std::error_code ignored;
  for (fs::directory_iterator files(folder, ignored); !ignored && files != fs::directory_iterator();
       files.increment(ignored)) {
    std::error_code unknown;
    const bool is_draft = files->path().filename().string().find(".json.tmp.") != std::string::npos;
    const auto written = fs::last_write_time(files->path(), unknown);
    if (is_draft && !unknown && fs::file_time_type::clock::now() - written > kOld) fs::remove(files->path(), unknown);
  }
}

}  // namespace

void RunDirectory::make() const {
  for (const char* folder : {kAttempts, kLogs, "where"}) make_directories(root_ / folder);
  for (const fs::path& folder : {root_, root_ / kAttempts}) remove_leftovers(folder);
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

fs::path RunDirectory::tensorboard(int attempt) const {
  return root_ / "tensorboard" / fmt::format("attempt-{:06}", attempt);
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

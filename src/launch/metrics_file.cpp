#include "launch/metrics_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <sstream>

#include "core/logging.h"

namespace shoal::launch {
namespace {

// Whether the last byte is something else than the end of a line.
bool ends_within_a_line(int descriptor) {
  const off_t size = ::lseek(descriptor, 0, SEEK_END);
  char last = '\n';
  return size > 0 && ::pread(descriptor, &last, 1, size - 1) == 1 && last != '\n';
}

template <typename Metrics>
std::vector<Metrics> values_of(std::map<std::int64_t, Metrics>& by_step) {
  std::vector<Metrics> values;
  for (auto& [step, value] : by_step) values.push_back(std::move(value));
  return values;
}

}  // namespace

MetricsFile::MetricsFile(const std::filesystem::path& path) : path_(path) {
  descriptor_ = Descriptor(::open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666));
  if (!descriptor_) throw_io_error("write", path, errno);
  if (ends_within_a_line(descriptor_.get())) write("\n");
}

void MetricsFile::write(const std::string& text) {
  const ssize_t written = ::write(descriptor_.get(), text.data(), text.size());
  if (written != static_cast<ssize_t>(text.size())) throw_io_error("write", path_, written < 0 ? errno : ENOSPC);
}

void MetricsFile::append(const MetricsLine& line) noexcept {
  if (failed_) return;
  try {
    write(format(line) + "\n");
  } catch (const std::exception& error) {
    failed_ = true;
    log::warning("no more numbers of this attempt are noted: {}", error.what());
  }
}

MetricsHistory read_metrics(const std::filesystem::path& path) {
  const std::string text = read_text_file(path);
  MetricsHistory history;
  std::map<std::int64_t, StepMetrics> steps;
  std::map<std::int64_t, CheckpointMetrics> checkpoints;
  std::map<std::int64_t, ValidationMetrics> validations;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const bool unfinished = lines.eof();
    if (line.empty()) continue;
    const auto parsed = parse_metrics(line, path.string());
    if (!parsed) {
      if (!unfinished) ++history.unreadable;
      continue;
    }
    if (const auto* start = std::get_if<MetricsStart>(&*parsed)) history.starts.push_back(*start);
    if (const auto* step = std::get_if<StepMetrics>(&*parsed)) steps[step->step] = *step;
    if (const auto* saved = std::get_if<CheckpointMetrics>(&*parsed)) checkpoints[saved->step] = *saved;
    if (const auto* tested = std::get_if<ValidationMetrics>(&*parsed)) validations[tested->step] = *tested;
  }
  history.steps = values_of(steps);
  history.checkpoints = values_of(checkpoints);
  history.validations = values_of(validations);
  return history;
}

}  // namespace shoal::launch

// Reads every byte of a checkpoint and checks it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace shoal::checkpoint {

struct FileCheck {
  std::string name;
  std::int64_t bytes = 0, regions = 0;
  std::vector<std::string> problems;  // each names the file, the tensor and the elements
};

struct VerifyReport {
  std::filesystem::path path;
  std::int64_t bytes = 0;  // of tensors, read and compared
  double seconds = 0;
  std::vector<FileCheck> files;
  std::vector<std::string> problems;  // of the checkpoint as a whole
  std::int64_t problem_count() const;
};

// Goes on after a problem, so that the report is whole. Throws CheckpointError only where COMMIT or the manifest is
// so wrong that the files are not known.
VerifyReport verify(const std::filesystem::path& checkpoint);

}  // namespace shoal::checkpoint

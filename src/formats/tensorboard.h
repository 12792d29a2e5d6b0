// TensorBoard's event files: a TFRecord of protobuf messages (tensorflow.Event), of which scalars alone are written.
// The names of files are TensorBoard's: it looks for "tfevents" in them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "core/file_io.h"

namespace shoal::formats {

// One TFRecord: length, masked CRC-32C of the length, `data`, masked CRC-32C of that.
std::string tf_record(const std::string& data);

class TensorBoardFile {
 public:
  // A new file in `folder`, which is made; `name` tells it from those of other processes. IoError.
  TensorBoardFile(const std::filesystem::path& folder, const std::string& name, double time);
  // Scalars of one step: tag and value.
  void add(double time, std::int64_t step, const std::vector<std::pair<std::string, double>>& scalars);

 private:
  void append(const std::string& event);

  OutputFile file_;
  std::int64_t bytes_ = 0;
};

}  // namespace shoal::formats

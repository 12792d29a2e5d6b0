// The files that an export writes: each format knows where a tensor's bytes belong before the first one is written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "checkpoint/export_plan.h"

namespace shoal::checkpoint {

struct ExportFile {
  std::filesystem::path path;
  std::int64_t bytes = 0;
};

struct ExportPlace {
  std::size_t file = 0;
  std::int64_t offset = 0;
};

// What stands in the files beside the tensors.
struct ExportRecord {
  ExportPlace place;
  std::string bytes;
};

// A part of a tensor of the plan, in the bytes of the exported element type.
struct WrittenPart {
  std::size_t tensor = 0;
  std::int64_t offset = 0, bytes = 0;
  std::uint32_t zip_crc = 0;
};

struct ExportLayout {
  std::vector<ExportFile> files;    // in the order in which they appear under their names
  std::vector<ExportPlace> places;  // of each tensor of the plan
  bool wants_zip_crc = false;       // of the parts
  // All that is no tensor, once every part is written.
  std::function<std::vector<ExportRecord>(const std::vector<WrittenPart>&)> records;
};

// Of a tensor of the plan: its parameter's name, and state.
std::string hdf5_dataset_path(const std::string& parameter, const std::string& state);
ExportLayout lay_out_hdf5(const std::filesystem::path& output, const Manifest& manifest, const ExportPlan& plan);
// With the optimizer: a dict with "model" (the state dict), "optimizer" (what torch's load_state_dict()
// of the same optimizer takes), "step" and "training_state".
ExportLayout lay_out_torch(const std::filesystem::path& output, const Manifest& manifest, const ExportPlan& plan,
                           bool with_optimizer);
// `most_bytes`: of a file's tensors, in a folder `output`; 0: one file `output`. `config`: what is to be config.json in
// that folder; empty: none.
ExportLayout lay_out_safetensors(const std::filesystem::path& output, const ExportPlan& plan, std::int64_t most_bytes,
                                 const std::string& config);

// The plan has no aliases. OptionError where NumPy lacks an element type.
ExportLayout lay_out_npz(const std::filesystem::path& output, const ExportPlan& plan);

}  // namespace shoal::checkpoint

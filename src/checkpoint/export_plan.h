// What of a checkpoint goes into an exported file, under which names and in which element types.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/rename_rules.h"

namespace shoal::checkpoint {

struct ExportSelection {
  bool with_optimizer = false;
  std::optional<DType> dtype;       // of the model's floating tensors; the optimizer's stay as they are
  std::vector<std::string> select;  // globs on parameters' names, before they are renamed; empty: all
  RenameRules rename;
};

struct ExportTensor {
  std::size_t source = 0;  // index into the manifest's tensors
  TensorSpec spec;         // the parameter's name, alone; element type and shape in the file
  std::string state;       // "exp_avg": of the optimizer; empty: of the model
};

std::int64_t bytes_of(const ExportTensor& tensor);  // in the file

struct ExportPlan {
  std::vector<ExportTensor> tensors;                         // in the manifest's order
  std::vector<std::pair<std::string, std::size_t>> aliases;  // other names of the model's tensors

  std::int64_t tensor_bytes() const;
};

// OptionError where a glob takes nothing, where two tensors would have one name, or where nothing is left.
ExportPlan plan_export(const Manifest& manifest, const ExportSelection& selection);

// Each alias becomes a tensor with elements of its own.
void write_aliases_out(ExportPlan& plan);

}  // namespace shoal::checkpoint

// Models that were defined in Python and saved as TorchScript: they train without Python.
#pragma once

#include <filesystem>

#include "models/registry.h"

namespace shoal::models {

// The entry for a TorchScript file with a model and its loss, as scripts/export_model.py writes it and
// docs/from_python.md describes it. Reads the file's description only; make() loads the rest, weights included, whole
// on the CPU. Modules are named by their Python classes ("class:GPT2Block") and parameters as in Python.
// OptionError that names --model-script, from here and from make() and what it gives, for a file that is not as
// described.
ModelEntry load_script_model(const std::filesystem::path& path);

}  // namespace shoal::models

// Finds the tensors of a state dict in a file that torch.save wrote.
#pragma once

#include <string>

#include "formats/byte_source.h"
#include "formats/stored_tensor.h"
#include "formats/torch_archive.h"

namespace shoal::formats {

// The dictionary under `key`, names of nested dictionaries with dots between them ("state.ema.model"). Without one: the
// file's own, or the one that it has under "state_dict", "model_state_dict", "model" or "module" (told in the notes).
// CheckpointError where there is none.
const PickleNode& find_state_dict(const TorchArchive& archive, const std::string& key, StoredTensors& stored);

// The tensors of that dictionary. What else it has is among the others, and so are tensors of element types that Shoal
// does not have. Views that do not lie row-major have strides.
StoredTensors tensors_of(TorchArchive& archive, const PickleNode& dictionary);

// Both at once. CheckpointError, with path, entry and what is wrong, for anything that is damaged, and for objects of
// Python beyond tensors, containers, numbers and text.
StoredTensors read_torch_zip(const ByteSource& file, const std::string& key = "");

}  // namespace shoal::formats

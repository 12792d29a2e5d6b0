// Finds the tensors in a file that torch.save wrote (PyTorch 1.6 and later: a ZIP archive of data.pkl and one stored
// entry for each storage).
#pragma once

#include "formats/byte_source.h"
#include "formats/stored_tensor.h"

namespace shoal::formats {

// The file holds a dictionary of tensors, or one that has such a dictionary under "state_dict", "model_state_dict" or
// "model" (told in the notes). What else the dictionary has is among the others, and so are tensors of element types
// that Shoal does not have. Views that do not lie row-major have strides. CheckpointError, with path, entry and what
// is wrong, for anything that is damaged, and for objects of Python beyond tensors, containers, numbers and text.
StoredTensors read_torch_zip(const ByteSource& file);

}  // namespace shoal::formats

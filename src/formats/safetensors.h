// Reads the header of a safetensors file (https://github.com/huggingface/safetensors, "Format"): eight bytes with the
// length of a JSON object, the object (name → dtype, shape, data_offsets), then the tensors' bytes without gaps.
#pragma once

#include <string_view>

#include "formats/byte_source.h"
#include "formats/stored_tensor.h"

namespace shoal::formats {

// Whether a file that begins with `head` (at least nine bytes of it) may be of this format.
bool looks_like_safetensors(std::string_view head);

// The tensors in the order of their bytes. Element types that Shoal does not have (F8_E4M3, U16, …) are among the
// others. CheckpointError, with path and what is wrong where, for a header that is too long, cut off or no JSON, for
// names that stand twice, sizes that do not fit the shape, and offsets that overlap, leave gaps or lead out of the
// file.
StoredTensors read_safetensors_header(const ByteSource& file);

}  // namespace shoal::formats

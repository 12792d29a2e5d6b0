// The header of a safetensors file (https://github.com/huggingface/safetensors, "Format"): eight bytes with the
// length of a JSON object, the object (name → dtype, shape, data_offsets), then the tensors' bytes without gaps.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "formats/byte_source.h"
#include "formats/stored_tensor.h"

namespace shoal::formats {

// Whether a file that begins with `head` (at least nine bytes of it) may be of this format.
bool looks_like_safetensors(std::string_view head);

// The tensors in the order of their bytes. Element types that Shoal does not have (F8_E8M0, U16, …) are among the
// others. CheckpointError, with path and what is wrong where, for a header that is too long, cut off or no JSON, for
// names that stand twice, sizes that do not fit the shape, and offsets that overlap, leave gaps or lead out of the
// file.
StoredTensors read_safetensors_header(const ByteSource& file);

// A file to be written: `header` stands at its beginning, the elements of tensor i from byte offsets[i] on.
struct SafetensorsLayout {
  std::string header;  // with its length in front
  std::vector<std::uint64_t> offsets;
  std::uint64_t bytes = 0;  // of the whole file
};

// As the reference implementation lays them out: the larger element types first, then by name, so that all are aligned.
// `metadata` may be empty. OptionError where the header would be longer than readers take.
SafetensorsLayout lay_out_safetensors(const std::vector<TensorSpec>& tensors,
                                      const std::map<std::string, std::string>& metadata);

}  // namespace shoal::formats

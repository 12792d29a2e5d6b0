// Elements of tensors whose plain bytes lie in a file, also of views whose elements lie apart.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>

#include "core/file_io.h"
#include "formats/byte_source.h"
#include "formats/stored_tensor.h"

namespace shoal::checkpoint {

formats::ByteSource source_of(const std::shared_ptr<InputFile>& file, const std::filesystem::path& path);

// Elements [begin, begin + count) of the flattened tensor, in the file's type. Bounded memory of its own.
void read_stored(const InputFile& file, const formats::StoredTensor& tensor, std::int64_t begin, std::int64_t count,
                 std::byte* into);

}  // namespace shoal::checkpoint

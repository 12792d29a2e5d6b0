// A file that is a text in memory.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "core/error.h"
#include "formats/byte_source.h"

namespace shoal::formats {

// `text` must outlive the source.
inline ByteSource text_source(const std::string& text) {
  return {"FILE", text.size(), [&text](std::uint64_t offset, void* into, std::size_t bytes) {
            ASSERT_LE(offset + bytes, text.size()) << "reads behind the end";
            std::memcpy(into, text.data() + offset, bytes);
          }};
}

// The text of the CheckpointError that `body` throws.
template <typename Body>
std::string checkpoint_error(const Body& body) {
  try {
    body();
  } catch (const CheckpointError& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

#define EXPECT_CONTAINS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

}  // namespace shoal::formats

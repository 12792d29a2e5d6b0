// The contents are judged by PyTorch itself, in tests/interop; here, what it does not look at.
#include "formats/torch_zip.h"

#include <gtest/gtest.h>

namespace shoal::formats {
namespace {

TEST(TorchZip, StoragesFollowTheSmallEntriesAligned) {
  TorchZip zip({{"a", 0}, {"b", 1}, {"tied", 0}}, {{DType::float32, {2, 3}}, {DType::bfloat16, {}}});
  EXPECT_EQ(zip.storage_offset(0) % 64, 0u);
  EXPECT_GE(zip.storage_offset(1), zip.storage_offset(0) + 24);
  const std::string elements(24, '\1');
  zip.note_piece(0, 0, elements.data(), 24);
  zip.note_piece(1, 0, elements.data(), 2);
  std::string file(zip.total_bytes(), '\0');
  for (const auto& [offset, bytes] : zip.records()) file.replace(offset, bytes.size(), bytes);
  EXPECT_EQ(file.size(), zip.total_bytes());
  for (const char* entry : {"archive/data.pkl", "archive/byteorder", "archive/version", "archive/data/0",
                            "archive/data/1", "little", "3\n"})
    EXPECT_NE(file.find(entry), std::string::npos) << entry;
  EXPECT_EQ(file.find("archive/data/2"), std::string::npos);  // the tied name has no storage of its own
}

TEST(TorchZip, EmptyStateDict) {
  const TorchZip zip(std::vector<TorchTensor>{}, {});
  EXPECT_EQ(zip.records().size(), 3u + 1u + 3u);
}

}  // namespace
}  // namespace shoal::formats

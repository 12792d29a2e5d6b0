// The bytes of TensorBoard's files; tests/interop reads them with TensorBoard itself.
#include "formats/tensorboard.h"

#include <gtest/gtest.h>

#include "support/temporary_folder.h"

namespace shoal::testing {
namespace {

std::string bytes(std::initializer_list<int> values) {
  std::string text;
  for (const int value : values) text += static_cast<char>(value);
  return text;
}

TEST(TensorBoardTest, ARecordHasItsLengthAndBothChecksums) {
  const std::string record = formats::tf_record("123456789");
  ASSERT_EQ(record.size(), 8u + 4 + 9 + 4);
  EXPECT_EQ(record.substr(0, 8), bytes({9, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(record.substr(12, 9), "123456789");
  // crc32c("123456789") is 0xE3069283 (RFC 3720): rotated right by 15 bits 0x2507C60D, and 0xA282EAD8 added.
  EXPECT_EQ(record.substr(21), bytes({0xe5, 0xb0, 0x8a, 0xc7}));
}

TEST(TensorBoardTest, AScalarIsAnEventWithASummary) {
  const TemporaryFolder folder;
  formats::TensorBoardFile file(folder.path() / "tensorboard", "host.1", 2);
  file.add(2, 300, {{"a/b", 1.5}});
  const auto path = folder.path() / "tensorboard" / "events.out.tfevents.2.host.1";
  const std::string text = read_text_file(path);
  // wall_time 2.0; step 300; summary { value { tag: "a/b" simple_value: 1.5 } }
  const std::string event = bytes({0x09, 0, 0, 0, 0, 0, 0, 0, 0x40, 0x10, 0xac, 0x02, 0x2a, 12, 0x0a, 10, 0x0a, 3}) +
                            "a/b" + bytes({0x15, 0, 0, 0xc0, 0x3f});
  ASSERT_GT(text.size(), event.size());
  EXPECT_EQ(text.substr(text.size() - event.size() - 4, event.size()), event);
  EXPECT_NE(text.find("brain.Event:2"), std::string::npos);
}

}  // namespace
}  // namespace shoal::testing

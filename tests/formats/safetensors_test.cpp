// Files of the reference implementation are read in tests/interop; here, those that it would not write.
#include "formats/safetensors.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "formats/text_source.h"

namespace shoal::formats {
namespace {

std::string file_of(const std::string& header, std::size_t data_bytes, std::int64_t longer = 0) {
  std::string file;
  const std::uint64_t length = header.size() + static_cast<std::uint64_t>(longer);
  for (int i = 0; i < 8; ++i) file += static_cast<char>(length >> (8 * i));
  return file + header + std::string(data_bytes, '\0');
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape, std::size_t begin,
                  std::size_t end) {
  return fmt::format(R"("{}":{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})", name, dtype, shape, begin, end);
}

std::string header_of(const std::vector<std::string>& entries) {
  return fmt::format("{{{}}}", fmt::join(entries, ","));
}

std::string error_of(const std::string& file) {
  return checkpoint_error([&] { read_safetensors_header(text_source(file)); });
}

TEST(Safetensors, TensorsInTheOrderOfTheirBytes) {
  const std::string header = header_of({R"("__metadata__":{"format":"pt"})", entry("b", "BF16", "[2,3]", 8, 20),
                                        entry("a", "F64", "[]", 0, 8), entry("none", "I32", "[0,5]", 20, 20)}) +
                             "  ";
  const std::string file = file_of(header, 20);
  EXPECT_TRUE(looks_like_safetensors(file.substr(0, 16)));
  const StoredTensors stored = read_safetensors_header(text_source(file));
  ASSERT_EQ(stored.tensors.size(), 3u);
  EXPECT_EQ(stored.tensors[0].spec, (TensorSpec{"a", DType::float64, {}}));
  EXPECT_EQ(stored.tensors[1].spec, (TensorSpec{"b", DType::bfloat16, {2, 3}}));
  EXPECT_EQ(stored.tensors[2].spec, (TensorSpec{"none", DType::int32, {0, 5}}));
  EXPECT_EQ(stored.tensors[1].offset, 8 + header.size() + 8);
}

TEST(Safetensors, UnknownElementTypesAreToldApart) {
  const StoredTensors stored =
      read_safetensors_header(text_source(file_of(header_of({entry("q", "F8_E8M0", "[4]", 0, 4)}), 4)));
  EXPECT_TRUE(stored.tensors.empty());
  ASSERT_EQ(stored.others.size(), 1u);
  EXPECT_CONTAINS(stored.others[0].reason, "F8_E8M0");
}

TEST(Safetensors, DamagedHeaders) {
  EXPECT_CONTAINS(error_of("abc"), "truncated");
  EXPECT_CONTAINS(error_of(file_of("{}", 0, 1)), "truncated");
  EXPECT_CONTAINS(error_of(file_of("{", 0)), "damaged");
  EXPECT_CONTAINS(error_of(file_of("[1]", 0)), "no JSON object");
  EXPECT_CONTAINS(error_of(std::string(8, '\xff') + "{}"), "truncated");
  EXPECT_CONTAINS(error_of(file_of(R"({"a":3})", 0)), "tensor 'a'");
  EXPECT_CONTAINS(error_of(file_of(R"({"a":{"dtype":"F32"}})", 0)), "shape");
  const std::string twice = entry("a", "F32", "[1]", 0, 4);
  EXPECT_CONTAINS(error_of(file_of(header_of({twice, twice}), 4)), "'a' stands twice");
}

TEST(Safetensors, HeaderBeyondTheLimit) {
  ByteSource huge{"FILE", std::uint64_t{1} << 40, [](std::uint64_t, void* into, std::size_t bytes) {
                    std::memset(into, 0, bytes);
                    static_cast<char*>(into)[4] = 1;  // 4 GiB
                  }};
  EXPECT_CONTAINS(checkpoint_error([&] { read_safetensors_header(huge); }), "limit");
}

TEST(Safetensors, SizesAndPlacesThatCannotBe) {
  const auto error = [](const std::vector<std::string>& tensors, std::size_t bytes) {
    return error_of(file_of(header_of(tensors), bytes));
  };
  EXPECT_CONTAINS(error({entry("a", "F32", "[2]", 0, 4)}, 4), "wants 8 bytes");
  EXPECT_CONTAINS(error({entry("a", "F32", "[2]", 0, 8)}, 4), "truncated");
  EXPECT_CONTAINS(error({entry("a", "F32", "[1]", 0, 4)}, 8), "4 bytes follow");
  EXPECT_CONTAINS(error({entry("a", "F32", "[1]", 0, 4), entry("b", "F32", "[1]", 2, 6)}, 6), "overlap");
  EXPECT_CONTAINS(error({entry("a", "F32", "[1]", 0, 4), entry("b", "F32", "[1]", 5, 9)}, 9), "gap");
  EXPECT_CONTAINS(error({entry("a", "F32", "[1]", 4, 0)}, 4), "no begin and end");
  EXPECT_CONTAINS(error({entry("a", "F32", "[-1]", 0, 4)}, 4), "extent");
  EXPECT_CONTAINS(error({entry("a", "F32", "[1.5]", 0, 4)}, 4), "extent");
  EXPECT_CONTAINS(error({entry("a", "F32", "[18446744073709551615]", 0, 4)}, 4), "extent");
  EXPECT_CONTAINS(error({entry("a", "F32", "[4294967296,4294967296]", 0, 4)}, 4), "impossible");
  EXPECT_CONTAINS(error({entry("a", "F32", "[4611686018427387904,4,0]", 0, 0)}, 0), "impossible");
}

TEST(Safetensors, WhatIsLaidOutIsRead) {
  const std::vector<TensorSpec> tensors{{"b", DType::boolean, {3}},
                                        {"z\"\n", DType::float32, {2, 2}},
                                        {"a", DType::float32, {}},
                                        {"empty", DType::bfloat16, {0, 4}},
                                        {"d", DType::float64, {1, 1}}};
  const SafetensorsLayout layout = lay_out_safetensors(tensors, {{"format", "pt"}});
  EXPECT_EQ(layout.header.size() % 8, 0u);
  const std::string file = layout.header + std::string(layout.bytes - layout.header.size(), '\0');
  const StoredTensors read = read_safetensors_header(text_source(file));
  ASSERT_EQ(read.tensors.size(), tensors.size());
  for (const StoredTensor& stored : read.tensors) {
    const auto at = std::find(tensors.begin(), tensors.end(), stored.spec);
    ASSERT_NE(at, tensors.end());
    EXPECT_EQ(stored.offset, layout.offsets[static_cast<std::size_t>(at - tensors.begin())]);
    EXPECT_EQ(stored.offset % static_cast<std::uint64_t>(size_of(stored.spec.dtype)), 0u);
  }
}

}  // namespace
}  // namespace shoal::formats

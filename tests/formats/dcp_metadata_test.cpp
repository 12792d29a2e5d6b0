// PyTorch's own metadata are read in tests/interop and tests/checkpoint; here, what it would not write.
#include "formats/dcp_metadata.h"

#include "formats/text_source.h"

namespace shoal::formats {
namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;
using Extents = std::vector<int>;

// Pieces of a pickle.
std::string number(int value) {
  std::string bytes = "J";
  for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(value >> shift & 0xff);
  return bytes;
}
std::string text(const std::string& value) { return "X" + number(static_cast<int>(value.size())).substr(1) + value; }
std::string dictionary(const Pairs& pairs) {
  std::string bytes = "}(";
  for (const auto& [key, value] : pairs) bytes += key + value;
  return bytes + "u";
}
std::string object(const std::string& global, const std::string& state) {
  const std::size_t dot = global.rfind('.');
  return "c" + global.substr(0, dot) + "\n" + global.substr(dot + 1) + "\n)\x81" + state + "b";
}
std::string metadata_object(const std::string& name, const Pairs& attributes) {
  Pairs pairs;
  for (const auto& [key, value] : attributes) pairs.emplace_back(text(key), value);
  return object("torch.distributed.checkpoint.metadata." + name, dictionary(pairs));
}
std::string size(const Extents& extents) {
  std::string bytes = "ctorch\nSize\n(";
  for (const int extent : extents) bytes += number(extent);
  return bytes + "t\x85R";
}

struct Chunk {
  Extents offsets, sizes;
  std::string file = "__0_0.distcp";
  std::string extra = "N";  // transforms
};

// A tensor 'w' of float32.
std::string metadata(const Extents& shape, const std::vector<Chunk>& chunks, const std::string& dtype = "float32",
                     const std::string& memory_format = "N") {
  std::string boxes = "](";
  Pairs places;
  for (const Chunk& chunk : chunks) {
    boxes += metadata_object("ChunkStorageMetadata", {{"offsets", size(chunk.offsets)}, {"sizes", size(chunk.sizes)}});
    places.emplace_back(
        metadata_object("MetadataIndex", {{"fqn", text("w")}, {"offset", size(chunk.offsets)}, {"index", "N"}}),
        object("torch.distributed.checkpoint.filesystem._StorageInfo",
               dictionary({{text("relative_path"), text(chunk.file)},
                           {text("offset"), number(16)},
                           {text("length"), number(100)},
                           {text("transform_descriptors"), chunk.extra}})));
  }
  const std::string properties = object("torch.distributed.checkpoint.metadata.TensorProperties",
                                        "(ctorch\n" + dtype + "\nN\x89" + memory_format + "\x89t");
  const std::string tensor = metadata_object(
      "TensorStorageMetadata", {{"properties", properties}, {"size", size(shape)}, {"chunks", boxes + "e"}});
  return "\x80\x02" +
         metadata_object("Metadata", {{"state_dict_metadata", dictionary({{text("w"), tensor}})},
                                      {"planner_data", dictionary({{text("w"), text("model") + text("w") + "\x86"}})},
                                      {"storage_data", dictionary(places)}}) +
         ".";
}

std::string error_of(const std::string& bytes) {
  return checkpoint_error([&] { read_dcp_metadata(bytes, "FILE"); });
}

TEST(DcpMetadata, ChunksInTheirOrder) {
  const auto entries =
      read_dcp_metadata(metadata({4, 3}, {{{2, 0}, {2, 3}}, {{0, 0}, {2, 3}}, {{4, 0}, {0, 3}}}), "FILE");
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].path, (std::vector<std::string>{"model", "w"}));
  EXPECT_EQ(entries[0].known, DType::float32);
  EXPECT_EQ(entries[0].shape, (std::vector<std::int64_t>{4, 3}));
  ASSERT_EQ(entries[0].chunks.size(), 2u);  // the empty one is none
  EXPECT_EQ(entries[0].chunks[0].offsets, (std::vector<std::int64_t>{0, 0}));
  EXPECT_EQ(entries[0].chunks[1].place.file, "__0_0.distcp");
  EXPECT_EQ(entries[0].chunks[1].place.offset, 16u);
  EXPECT_EQ(entries[0].chunks[1].place.bytes, 100u);
}

// Python 3.11.0 to 3.11.3 and the others write a value of an enumeration in two ways.
TEST(DcpMetadata, MemoryFormatsOfEveryPython) {
  const std::string encoding = "ctorch.distributed.checkpoint.metadata\n_MEM_FORMAT_ENCODING\n";
  for (const std::string& format : {encoding + number(0) + "\x85R",
                                    "cbuiltins\ngetattr\n" + encoding + text("TORCH_CONTIGUOUS_FORMAT") + "\x86R"}) {
    const auto entries = read_dcp_metadata(metadata({2}, {{{0}, {2}}}, "float32", format), "FILE");
    ASSERT_EQ(entries.size(), 1u);
    EXPECT_EQ(entries[0].known, DType::float32);
  }
}

TEST(DcpMetadata, ScalarsEmptyTensorsAndOtherTypes) {
  EXPECT_EQ(read_dcp_metadata(metadata({}, {{{}, {}}}), "FILE")[0].chunks.size(), 1u);
  EXPECT_TRUE(read_dcp_metadata(metadata({0, 3}, {{{0, 0}, {0, 3}}}), "FILE")[0].chunks.empty());
  const auto eight_bits = read_dcp_metadata(metadata({1}, {{{0}, {1}}}, "float8_e8m0fnu"), "FILE");
  EXPECT_FALSE(eight_bits[0].known.has_value());
  EXPECT_EQ(eight_bits[0].dtype, "torch.float8_e8m0fnu");
}

TEST(DcpMetadata, ChunksThatDoNotMakeTheTensor) {
  EXPECT_CONTAINS(error_of(metadata({4}, {{{0}, {2}}})), "leave gaps");
  EXPECT_CONTAINS(error_of(metadata({4}, {{{0}, {3}}, {{2}, {2}}})), "overlap");
  EXPECT_CONTAINS(error_of(metadata({2, 4}, {{{0, 0}, {2, 3}}, {{0, 2}, {2, 2}}})), "overlap");
  EXPECT_CONTAINS(error_of(metadata({4}, {{{0}, {2}}, {{0}, {2}}})), "twice");
  EXPECT_CONTAINS(error_of(metadata({4}, {{{0}, {5}}})), "leaves it");
  EXPECT_CONTAINS(error_of(metadata({4}, {{{0, 0}, {4, 1}}})), "other dimensions");
  EXPECT_CONTAINS(error_of(metadata({-4}, {{{0}, {4}}})), "cannot be");
  EXPECT_CONTAINS(error_of(metadata({2147483647, 2147483647, 2147483647}, {{{0, 0, 0}, {1, 1, 1}}})), "impossible");
}

TEST(DcpMetadata, WhatShoalDoesNotRead) {
  EXPECT_CONTAINS(error_of(metadata({4}, {{{0}, {4}, "../secret"}})), "'../secret' is no name");
  EXPECT_CONTAINS(error_of(metadata({4}, {{{0}, {4}, "a/b"}})), "'a/b' is no name");
  EXPECT_CONTAINS(error_of(metadata({4}, {{{0},
                                           {4},
                                           "x",
                                           "](N\x88"
                                           "e"}})),
                  "transforms");
  EXPECT_CONTAINS(error_of("cos\nsystem\n(X\x02\0\0\0lst."), "'os.system'");
  EXPECT_CONTAINS(error_of("ctorch\nload\n."), "no Metadata");
  EXPECT_CONTAINS(error_of("ctorch.hub\nload\n."), "'torch.hub.load'");
  EXPECT_CONTAINS(error_of("N."), "no Metadata");
  EXPECT_CONTAINS(error_of(""), "ends in the middle");
}

}  // namespace
}  // namespace shoal::formats

// PyTorch's own files are read in tests/interop; here our own writer's, and what PyTorch would not write.
#include "formats/torch_zip_reader.h"

#include "formats/pickle.h"
#include "formats/text_source.h"
#include "formats/torch_zip.h"
#include "formats/zip_layout.h"
#include "formats/zip_reader.h"

namespace shoal::formats {
namespace {

using Entries = std::vector<std::pair<std::string, std::string>>;

std::string zip_of(const Entries& entries) {
  ZipLayout layout;
  std::vector<std::size_t> indices;
  for (const auto& [name, bytes] : entries) {
    indices.push_back(layout.add(name, bytes.size()));
    layout.note_piece(indices.back(), 0, bytes.data(), bytes.size());
  }
  std::string file(layout.total_bytes(), '\0');
  for (std::size_t i = 0; i < entries.size(); ++i)
    file.replace(layout.data_offset(indices[i]), entries[i].second.size(), entries[i].second);
  for (const auto& [offset, bytes] : layout.records()) file.replace(offset, bytes.size(), bytes);
  return file;
}

struct Call {
  std::string storage = "FloatStorage", key = "0";
  std::int64_t offset = 0;
  std::vector<std::int64_t> shape = {2, 3}, strides = {3, 1};
};

std::string pickle_of(const Call& call) {
  PickleWriter pickle;
  pickle.global("collections", "OrderedDict");
  pickle.empty_tuple();
  pickle.reduce();
  pickle.mark();
  pickle.string("w");
  pickle.global("torch._utils", "_rebuild_tensor_v2");
  pickle.mark();
  pickle.mark();
  pickle.string("storage");
  pickle.global("torch", call.storage);
  pickle.string(call.key);
  pickle.string("cuda:3");
  pickle.integer(6);
  pickle.tuple_from_mark();
  pickle.persistent_id();
  pickle.integer(call.offset);
  pickle.integers(call.shape);
  pickle.integers(call.strides);
  pickle.boolean(false);
  pickle.tuple_from_mark();
  pickle.reduce();
  pickle.set_items();
  return pickle.finish();
}

StoredTensors read(const Call& call, std::size_t storage_bytes = 24) {
  const std::string file = zip_of({{"m/data.pkl", pickle_of(call)}, {"m/data/0", std::string(storage_bytes, 'x')}});
  return read_torch_zip(text_source(file));
}
std::string error_of(const Call& call) {
  return checkpoint_error([&] { read(call); });
}
std::string error_of(const Entries& entries) {
  const std::string file = zip_of(entries);
  return checkpoint_error([&] { read_torch_zip(text_source(file)); });
}

TEST(TorchZipReader, OurOwnFiles) {
  TorchZip zip({{"a", 0}, {"b", 1}, {"tied", 0}}, {{DType::float32, {2, 3}}, {DType::bfloat16, {}}});
  const std::string elements(24, '\1');
  zip.note_piece(0, 0, elements.data(), 24);
  zip.note_piece(1, 0, elements.data(), 2);
  std::string file(zip.total_bytes(), '\0');
  for (const auto& [offset, bytes] : zip.records()) file.replace(offset, bytes.size(), bytes);
  const StoredTensors stored = read_torch_zip(text_source(file));
  ASSERT_EQ(stored.tensors.size(), 3u);
  EXPECT_EQ(stored.tensors[0].spec, (TensorSpec{"a", DType::float32, {2, 3}}));
  EXPECT_EQ(stored.tensors[1].spec, (TensorSpec{"b", DType::bfloat16, {}}));
  EXPECT_EQ(stored.tensors[0].offset, zip.storage_offset(0));
  EXPECT_EQ(stored.tensors[2].offset, zip.storage_offset(0));
  EXPECT_TRUE(stored.tensors[0].strides.empty());
}

TEST(TorchZipReader, ViewsHaveStridesOnlyWhereTheyMustHave) {
  EXPECT_EQ(read({"FloatStorage", "0", 0, {3, 2}, {1, 3}}).tensors[0].strides, (std::vector<std::int64_t>{1, 3}));
  EXPECT_TRUE(read({"FloatStorage", "0", 2, {1, 4}, {99, 1}}).tensors[0].strides.empty());
  EXPECT_TRUE(read({"FloatStorage", "0", 6, {0, 4}, {99, 7}}).tensors[0].strides.empty());
  EXPECT_EQ(read({"FloatStorage", "0", 5, {7}, {0}}).tensors[0].strides, std::vector<std::int64_t>{0});
  EXPECT_EQ(read({"ComplexFloatStorage", "0", 0, {1}, {1}}).others.at(0).name, "w");
}

TEST(TorchZipReader, TensorsThatLeaveTheirStorage) {
  EXPECT_CONTAINS(error_of({"FloatStorage", "0", 1, {2, 3}, {3, 1}}), "ends at element 6 of a storage of 6");
  EXPECT_CONTAINS(error_of({"FloatStorage", "0", 0, {2, 3}, {INT64_MAX, 1}}), "leaves its storage");
  EXPECT_CONTAINS(error_of({"FloatStorage", "0", -1, {2, 3}, {3, 1}}), "cannot be");
  EXPECT_CONTAINS(error_of({"FloatStorage", "0", 0, {2, -3}, {3, 1}}), "cannot be");
  EXPECT_CONTAINS(error_of({"FloatStorage", "0", 0, {INT64_MAX, 3}, {0, 0}}), "impossible");
  EXPECT_CONTAINS(error_of({"FloatStorage", "0", 0, {2, 3}, {1}}), "impossible");
  EXPECT_CONTAINS(error_of({"FloatStorage", "7", 0, {2, 3}, {3, 1}}), "no entry 'm/data/7'");
}

TEST(TorchZipReader, OtherArchives) {
  EXPECT_CONTAINS(error_of(Entries{{"a.txt", "x"}}), "none that torch.save wrote");
  EXPECT_CONTAINS(error_of(Entries{{"m/data.pkl", "N."}, {"m/constants.pkl", "N."}}), "--model-script");
  EXPECT_CONTAINS(error_of(Entries{{"m/data.pkl", "N."}, {"m/byteorder", "big"}}), "big-endian");
  EXPECT_CONTAINS(error_of(Entries{{"m/data.pkl", "N."}}), "no dictionary");
  EXPECT_CONTAINS(error_of(Entries{{"m/data.pkl", "c__main__\nNet\n."}}), "'__main__.Net'");
}

// ZIP entries that are not plain bytes, changed in the finished file.
TEST(ZipReader, DamagedAndCompressedEntries) {
  const std::string good = zip_of({{"a", "hello"}, {"b", ""}});
  const ByteSource source = text_source(good);
  EXPECT_EQ(ZipReader(source).read("a", 100), "hello");
  EXPECT_EQ(ZipReader(source).read("b", 100), "");
  EXPECT_CONTAINS(checkpoint_error([&] { ZipReader(source).read("a", 4); }), "limit");
  const std::size_t central = good.find("PK\1\2"), data = good.find("hello");
  const auto damaged = [&](std::size_t at, char value) {
    std::string file = good;
    file.at(at) = value;
    const ByteSource bad = text_source(file);
    return checkpoint_error([&] { ZipReader(bad).read("a", 100); });
  };
  EXPECT_CONTAINS(damaged(central + 10, 8), "compressed");
  EXPECT_CONTAINS(damaged(central + 8, 1), "encrypted");
  EXPECT_CONTAINS(damaged(central + 16, 0), "checksum");
  EXPECT_CONTAINS(damaged(central + 0, 0), "directory is damaged");
  EXPECT_CONTAINS(damaged(central + 42, 9), "header of entry");
  EXPECT_CONTAINS(damaged(data, 'j'), "checksum");
  const std::string cut = good.substr(0, good.size() - 1);
  const ByteSource short_source = text_source(cut);
  EXPECT_CONTAINS(checkpoint_error([&] { ZipReader reader(short_source); }), "truncated");
}

}  // namespace
}  // namespace shoal::formats

// Files of every kind, read on several ranks, each its ranges or rank 0 for all: what arrives is what was written.
#include <gtest/gtest.h>

#include <fstream>

#include "checkpoint/convert_elements.h"
#include "checkpoint/export.h"
#include "checkpoint/row_major_boxes.h"
#include "checkpoint/weights_file.h"
#include "checkpoint/weights_samples.h"
#include "comm/fake_process_group.h"
#include "core/error.h"
#include "core/file_io.h"
#include "core/half.h"

namespace shoal::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::file_tensor;
using testing::FileTensor;
using testing::Loaded;
using testing::TemporaryDirectory;

#define EXPECT_CONTAINS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

std::vector<FileTensor> sample_file() {
  return {file_tensor("conv.weight", DType::float32, {7, 3, 3, 3}),
          file_tensor("half", DType::float16, {13}),
          file_tensor("brain", DType::bfloat16, {5, 11}),
          file_tensor("double", DType::float64, {3, 1}),
          file_tensor("scalar", DType::float32, {}),
          file_tensor("empty", DType::float32, {0, 4}),
          file_tensor("count", DType::int64, {}),
          file_tensor("i32", DType::int32, {5}),
          file_tensor("i16", DType::int16, {6}),
          file_tensor("i8", DType::int8, {7}),
          file_tensor("u8", DType::uint8, {8}),
          file_tensor("mask", DType::boolean, {3, 3})};
}

std::vector<TensorSpec> specs_of(const std::vector<FileTensor>& tensors) {
  std::vector<TensorSpec> specs;
  for (const FileTensor& tensor : tensors) specs.push_back(tensor.spec);
  return specs;
}

void write(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

void expect_loaded(const fs::path& source, const std::vector<FileTensor>& expected, const std::string& format) {
  for (const int ranks : {1, 3, 5})
    for (const bool rank0_reads : {false, true}) {
      const Loaded loaded = testing::load_on_ranks(source, specs_of(expected), ranks, rank0_reads);
      for (std::size_t i = 0; i < expected.size(); ++i)
        EXPECT_EQ(loaded.tensors[i], expected[i].bytes) << expected[i].spec.name << " on " << ranks;
      EXPECT_EQ(loaded.report.format, format);
    }
}

const std::vector<TensorSpec> kAnyModel{{"w", DType::float32, {4}}};

// The message of the ErrorType that all of three ranks throw alike.
template <typename ErrorType = CheckpointError>
std::string error_of(const fs::path& source, const std::vector<TensorSpec>& model, bool rank0_reads = false,
                     const std::vector<std::pair<std::string, std::string>>& aliases = {}) {
  try {
    testing::load_on_ranks(source, model, 3, rank0_reads, aliases);
  } catch (const ErrorType& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

TEST(LoadWeights, EveryFormatAndElementType) {
  const TemporaryDirectory directory;
  write(directory.path() / "a", testing::safetensors_bytes(sample_file()));
  expect_loaded(directory.path() / "a", sample_file(), "safetensors");
  write(directory.path() / "b", testing::torch_zip_bytes(sample_file()));
  expect_loaded(directory.path() / "b", sample_file(), "torch.save");
  write(directory.path() / "c", testing::hdf5_bytes(sample_file()));
  expect_loaded(directory.path() / "c", sample_file(), "consolidated HDF5");
}

TEST(LoadWeights, ReadsOnlyItsRanges) {
  const TemporaryDirectory directory;
  const std::vector<FileTensor> tensors{file_tensor("w", DType::float32, {100, 10})};
  write(directory.path() / "w", testing::safetensors_bytes(tensors));
  for (const bool rank0_reads : {false, true})
    EXPECT_EQ(testing::load_on_ranks(directory.path() / "w", specs_of(tensors), 4, rank0_reads).report.bytes_read,
              4000);
}

// Several chunks of a converted tensor and of a pair that must be equal.
TEST(LoadWeights, LargeTensors) {
  const TemporaryDirectory directory;
  const std::vector<FileTensor> file{file_tensor("wte.weight", DType::bfloat16, {1531, 2003})};
  std::vector<FileTensor> both = file;
  both.push_back({{"lm_head.weight", DType::bfloat16, {1531, 2003}}, file[0].bytes});
  write(directory.path() / "w", testing::safetensors_bytes(both));
  const auto* const from = reinterpret_cast<const std::uint16_t*>(file[0].bytes.data());
  for (const bool rank0_reads : {false, true}) {
    const Loaded loaded = testing::load_on_ranks(directory.path() / "w", {{"wte.weight", DType::float32, {1531, 2003}}},
                                                 3, rank0_reads, {{"lm_head.weight", "wte.weight"}});
    const auto* const got = reinterpret_cast<const float*>(loaded.tensors[0].data());
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < 1531 * 2003; ++i) wrong += got[i] != to_float(BFloat16{from[i]});
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(loaded.report.bytes_read, 2 * 2 * 1531 * 2003);
  }
}

TEST(LoadWeights, TiedTensorsThatDifferAreRefusedOnEveryRank) {
  const TemporaryDirectory directory;
  std::vector<FileTensor> file{file_tensor("wte.weight", DType::float32, {10, 3}),
                               file_tensor("wte.weight", DType::float32, {10, 3})};
  file[1].spec.name = "lm_head.weight";
  file[1].bytes.back() ^= 1;  // in the part of the last rank
  write(directory.path() / "w", testing::safetensors_bytes(file));
  for (const bool rank0_reads : {false, true}) {
    const std::string error = error_of(directory.path() / "w", {{"wte.weight", DType::float32, {10, 3}}}, rank0_reads);
    EXPECT_CONTAINS(error, "'wte.weight' and 'lm_head.weight' differ");
    EXPECT_CONTAINS(error, "--untied-head");
  }
}

TEST(LoadWeights, AnotherModelIsRefused) {
  const TemporaryDirectory directory;
  write(directory.path() / "w", testing::safetensors_bytes({file_tensor("a", DType::float32, {2})}));
  for (const bool rank0_reads : {false, true})
    EXPECT_CONTAINS(error_of(directory.path() / "w", {{"b", DType::float32, {2}}}, rank0_reads),
                    "1 missing in the file");
}

TEST(LoadWeights, WhatIsConsolidated) {
  const TemporaryDirectory directory;
  const auto tensors = testing::sample_tensors();
  testing::write_sample(directory.path() / "ckpt", 7, 3, 5);
  std::vector<FileTensor> expected;
  for (const testing::SampleTensor& tensor : tensors)
    if (tensor.name.starts_with("model/"))
      expected.push_back(file_tensor(tensor.name.substr(6), tensor.dtype, tensor.shape, 5));
  const fs::path checkpoint = directory.path() / "ckpt" / "step_00000007";
  export_checkpoint(
      {.checkpoint = checkpoint, .output = directory.path() / "w.h5", .selection = {.with_optimizer = true}});
  export_checkpoint({.checkpoint = checkpoint, .output = directory.path() / "w.pt", .format = ExportFormat::torch});
  export_checkpoint(
      {.checkpoint = checkpoint, .output = directory.path() / "w.safetensors", .format = ExportFormat::safetensors});
  export_checkpoint({.checkpoint = checkpoint,
                     .output = directory.path() / "w",
                     .format = ExportFormat::safetensors,
                     .shard_bytes = 200});
  for (const char* name : {"w.h5", "w.pt", "w.safetensors", "w"})
    for (const int ranks : {1, 4}) {
      const Loaded loaded = testing::load_on_ranks(directory.path() / name, specs_of(expected), ranks, false,
                                                   {{"tied", expected[0].spec.name}});
      for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(loaded.tensors[i], expected[i].bytes);
    }
  EXPECT_CONTAINS(error_of(fs::directory_iterator(checkpoint / "shards")->path(), kAnyModel),
                  "the checkpoint's folder");
}

class LoadFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    write(path() / "one.safetensors", testing::safetensors_bytes({tensors_[0]}));
    write(path() / "two.safetensors", testing::safetensors_bytes({tensors_[1]}));
    write_index(R"("a":"one.safetensors","b":"two.safetensors")");
  }
  const fs::path& path() const { return directory_.path(); }
  void write_index(const std::string& map) {
    write(path() / "model.safetensors.index.json", R"({"weight_map":{)" + map + "}}");
  }
  std::string error() const { return error_of(path(), specs_of(tensors_)); }

  TemporaryDirectory directory_;
  std::vector<FileTensor> tensors_{file_tensor("a", DType::float32, {50}), file_tensor("b", DType::float16, {3, 20})};
};

TEST_F(LoadFolder, ShardsOfAnIndex) {
  expect_loaded(path(), tensors_, "safetensors, 2 files");
  expect_loaded(path() / "model.safetensors.index.json", tensors_, "safetensors, 2 files");
}

TEST_F(LoadFolder, OneFileIsPreferredToAnIndex) {
  write(path() / "model.safetensors", testing::safetensors_bytes(tensors_));
  expect_loaded(path(), tensors_, "safetensors");
}

TEST_F(LoadFolder, BadIndices) {
  write_index(R"("a":"one.safetensors","b":"three.safetensors")");
  EXPECT_CONTAINS(error(), "names the file 'three.safetensors', which is not there");
  write_index(R"("a":"one.safetensors","b":"../two.safetensors")");
  EXPECT_CONTAINS(error(), "'../two.safetensors' is no name of a file beside it");
  write_index(R"("a":"two.safetensors","b":"one.safetensors")");
  EXPECT_CONTAINS(error(), "promises 'a' in 'two.safetensors'");
  write_index(R"("a":"model.safetensors.index.json")");
  EXPECT_CONTAINS(error(), "is no file of weights");
  write_index("");
  EXPECT_CONTAINS(error(), "names no files");
  write(path() / "model.safetensors.index.json", "{]");
  EXPECT_CONTAINS(error(), "is no index of weights");
  fs::remove(path() / "model.safetensors.index.json");
  EXPECT_CONTAINS(error(), "has no weights: none of model.safetensors");
}

TEST_F(LoadFolder, ATensorInTwoFiles) {
  write(path() / "two.safetensors", testing::safetensors_bytes(tensors_));
  EXPECT_CONTAINS(error(), "has two tensors 'a'");
}

TEST(LoadWeights, FilesThatAreNone) {
  const TemporaryDirectory directory;
  EXPECT_CONTAINS(error_of<IoError>(directory.path() / "missing", kAnyModel), "missing");
  write(directory.path() / "empty", "");
  EXPECT_CONTAINS(error_of(directory.path() / "empty", kAnyModel), "is no file of weights");
  write(directory.path() / "old.pt", std::string("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 15));
  EXPECT_CONTAINS(error_of(directory.path() / "old.pt", kAnyModel), "before PyTorch 1.6");
}

TEST(LoadWeights, RanksThatSeeDifferentFilesAreToldSo) {
  const TemporaryDirectory directory;
  write(directory.path() / "0", testing::safetensors_bytes({file_tensor("w", DType::float32, {4})}));
  write(directory.path() / "1", testing::safetensors_bytes({file_tensor("w", DType::float16, {4})}));
  comm::FakeWorld(2).run([&](comm::ProcessGroup& world) {
    StateDict state = testing::blank_state({{"model/w", DType::float32, {4}, "u"}}, world.rank(), 2);
    state.aliases.clear();
    try {
      load_weights(world, directory.path() / std::to_string(world.rank()), state);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const CheckpointError& error) {
      EXPECT_CONTAINS(std::string(error.what()), "rank 1 sees another file");
      EXPECT_CONTAINS(std::string(error.what()), "--sync-module-states");
    }
  });
}

TEST(ConvertElements, FloatingTypesAmongEachOther) {
  const std::vector<float> values{0.0f, -1.5f, 3.14159274f, 65504.0f, 1e-8f, 1e38f, -1e-40f};
  for (int from = 0; from <= 3; ++from)
    for (int to = 0; to <= 3; ++to) {
      const auto from_type = static_cast<DType>(from), to_type = static_cast<DType>(to);
      std::vector<double> a(values.size()), b(values.size()), back(values.size()), direct(values.size());
      const auto bytes = [](auto& v) { return reinterpret_cast<std::byte*>(v.data()); };
      std::vector<float> single = values;
      const auto count = static_cast<std::int64_t>(values.size());
      convert_elements(bytes(single), DType::float32, bytes(a), from_type, count);
      convert_elements(bytes(a), from_type, bytes(b), to_type, count);
      convert_elements(bytes(b), to_type, bytes(back), DType::float64, count);
      convert_elements(bytes(a), from_type, bytes(direct), DType::float64, count);
      for (std::size_t i = 0; i < values.size(); ++i) {
        double expected = direct[i];  // exact in double
        if (to_type == DType::float32) expected = static_cast<float>(expected);
        if (to_type == DType::float16) expected = to_float(to_float16(static_cast<float>(expected)));
        if (to_type == DType::bfloat16) expected = to_float(to_bfloat16(static_cast<float>(expected)));
        EXPECT_EQ(back[i], expected) << name_of(from_type) << " to " << name_of(to_type) << ": " << values[i];
      }
    }
  EXPECT_FALSE(is_convertible(DType::int32, DType::int64));
  EXPECT_FALSE(is_convertible(DType::float32, DType::int32));
}

// Boxes of every range of a small tensor are that range, in order.
TEST(RowMajorBoxes, CoverEveryRange) {
  const std::vector<std::int64_t> shape{3, 2, 1, 4};
  for (std::int64_t begin = 0; begin <= 24; ++begin)
    for (std::int64_t end = begin; end <= 24; ++end) {
      std::int64_t next = begin;
      const std::vector<Box> boxes = row_major_boxes(shape, begin, end - begin);
      EXPECT_LE(boxes.size(), 2 * shape.size());
      for (const Box& box : boxes) {
        std::int64_t first = 0, last = 0, numel = 1;
        for (std::size_t i = 0; i < shape.size(); ++i) {
          ASSERT_LE(box.start[i] + box.count[i], shape[i]);
          first = first * shape[i] + box.start[i];
          last = last * shape[i] + box.start[i] + box.count[i] - 1;
          numel *= box.count[i];
        }
        EXPECT_EQ(first, next);
        EXPECT_EQ(last - first + 1, numel);
        EXPECT_EQ(numel, box.numel);
        next += numel;
      }
      EXPECT_EQ(next, end);
    }
  EXPECT_EQ(row_major_boxes({}, 0, 1).size(), 1u);
  EXPECT_TRUE(row_major_boxes({5}, 2, 0).empty());
}

}  // namespace
}  // namespace shoal::checkpoint

#include "checkpoint/export.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>

#include "checkpoint/catalog.h"
#include "checkpoint/export_parts.h"
#include "checkpoint/sample_state.h"
#include "core/error.h"
#include "core/file_io.h"
#include "hdf5/attribute.h"
#include "hdf5/dataset.h"

namespace shoal::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryDirectory;
using testing::write_sample;

class ExportFiles : public ::testing::Test {
 protected:
  ExportOptions options(const char* name) const {
    ExportOptions options;
    options.checkpoint = checkpoint_;
    options.output = directory_.path() / name;
    return options;
  }
  TemporaryDirectory directory_;
  fs::path checkpoint_ = write_sample(directory_.path() / "ckpt", 7, 3, 5);
};

std::string bytes_of(const fs::path& path, const hdf5::Placement& place) {
  std::string bytes(static_cast<std::size_t>(place.numel() * place.element_bytes), '\0');
  if (!bytes.empty()) InputFile(path).read_at(place.file_offset, bytes.data(), bytes.size());
  return bytes;
}

std::string expected_bytes(const testing::SampleTensor& tensor) {
  const StateDict whole = testing::sample_state({tensor}, 0, 1, 5);
  const Region& region = whole.tensors[0].region;
  return {reinterpret_cast<const char*>(region.data), static_cast<std::size_t>(region.count * size_of(tensor.dtype))};
}

TEST_F(ExportFiles, Hdf5HoldsWholeTensors) {
  ExportOptions wanted = options("out.h5");
  wanted.selection.with_optimizer = true;
  const ExportReport report = export_checkpoint(wanted);
  EXPECT_EQ(report.tensors, static_cast<std::int64_t>(testing::sample_tensors().size()));
  EXPECT_EQ(report.bytes, read_manifest(checkpoint_).tensor_bytes());
  const hdf5::File file = hdf5::File::open_for_reading(wanted.output);
  for (const testing::SampleTensor& tensor : testing::sample_tensors()) {
    std::string name = tensor.name.starts_with("model/") ? tensor.name.substr(5) : "/" + tensor.name;
    if (name == "/a/b%c") name = "/a%2Fb%25c";
    const hdf5::Placement place = hdf5::find_dataset(file, name);
    EXPECT_EQ(place.shape, tensor.shape) << name;
    EXPECT_EQ(place.dtype, tensor.dtype) << name;
    EXPECT_EQ(bytes_of(wanted.output, place), expected_bytes(tensor)) << name;
  }
  EXPECT_EQ(hdf5::find_dataset(file, "/tied").file_offset, hdf5::find_dataset(file, "/conv1.weight").file_offset);
  EXPECT_EQ(hdf5::read_int64_attribute(file, "step"), 7);
  EXPECT_EQ(hdf5::read_string_attribute(file, "training_state"), testing::kTrainingState);
}

TEST_F(ExportFiles, OptimizerStateOnlyOnRequest) {
  export_checkpoint(options("out.h5"));
  const hdf5::File file = hdf5::File::open_for_reading(directory_.path() / "out.h5");
  EXPECT_EQ(hdf5::find_dataset(file, "/conv1.weight").shape, (std::vector<std::int64_t>{7, 3, 3, 3}));
  EXPECT_THROW(hdf5::find_dataset(file, "/optimizer/exp_avg/conv1.weight"), hdf5::Hdf5Error);
  ExportOptions torch = options("out.pt");
  torch.format = ExportFormat::torch;
  torch.selection.with_optimizer = true;
  EXPECT_THROW(export_checkpoint(torch), CheckpointError);  // this training state tells nothing of an optimizer
  ExportOptions safetensors = options("out.safetensors");
  safetensors.format = ExportFormat::safetensors;
  safetensors.selection.with_optimizer = true;
  EXPECT_THROW(export_checkpoint(safetensors), OptionError);
}

TEST_F(ExportFiles, ExistingOutputIsKeptUnlessForced) {
  write_text_file(directory_.path() / "out.h5", "mine");
  EXPECT_THROW(export_checkpoint(options("out.h5")), OptionError);
  EXPECT_EQ(read_text_file(directory_.path() / "out.h5"), "mine");
  ExportOptions forced = options("out.h5");
  forced.force = true;
  export_checkpoint(forced);
  EXPECT_NE(read_text_file(directory_.path() / "out.h5"), "mine");
}

TEST_F(ExportFiles, DamageLeavesNothing) {
  const fs::path shard = checkpoint_ / read_manifest(checkpoint_).files[2].name;
  const std::string wanted = expected_bytes({"model/half", DType::float16, {13}, ""}).substr(22, 4);
  const std::size_t at = read_text_file(shard).find(wanted);
  ASSERT_NE(at, std::string::npos);
  testing::flip_bit(shard, static_cast<std::int64_t>(at));
  for (const auto format : {ExportFormat::hdf5, ExportFormat::torch}) {
    ExportOptions wanted_options = options("out");
    wanted_options.format = format;
    EXPECT_THROW(export_checkpoint(wanted_options), CheckpointError);
    EXPECT_FALSE(fs::exists(directory_.path() / "out"));
    EXPECT_FALSE(fs::exists(directory_.path() / "out.part"));
  }
}

TEST_F(ExportFiles, StalePartIsReplaced) {
  write_text_file(directory_.path() / "out.h5.part", "left by a killed run");
  export_checkpoint(options("out.h5"));
  EXPECT_FALSE(fs::exists(directory_.path() / "out.h5.part"));
}

TEST_F(ExportFiles, UnwritableOutputIsAnIoError) {
  EXPECT_THROW(export_checkpoint(options("missing/out.h5")), IoError);
  ExportOptions torch = options("missing/out.pt");
  torch.format = ExportFormat::torch;
  EXPECT_THROW(export_checkpoint(torch), IoError);
}

// Zeros stay holes; so nothing of a part of another export may be where they belong.
TEST_F(ExportFiles, ZerosTakeNoRoom) {
  constexpr std::int64_t kElements = 4 << 20;
  const auto zeros = [](int rank) {
    StateDict state = testing::blank_state({{"model/w", DType::float32, {kElements}, "u"}}, rank, 2);
    Region& region = state.tensors[0].region;
    std::memset(region.data, 0, static_cast<std::size_t>(region.count) * 4);
    if (rank == 1) region.data[region.count * 4 - 1] = std::byte{1};
    return state;
  };
  ExportOptions wanted = options("out.safetensors");
  wanted.checkpoint = testing::write_states(directory_.path() / "zeros", 1, 2, zeros);
  wanted.format = ExportFormat::safetensors;
  const std::int64_t bytes = Export(wanted).source().layout.files[0].bytes;
  write_text_file(part_path(wanted.output), std::string(static_cast<std::size_t>(bytes), 'x'));
  export_checkpoint(wanted);
  const std::string got = read_text_file(wanted.output);
  EXPECT_EQ(got.substr(got.size() - kElements * 4), std::string(kElements * 4 - 1, '\0') + '\1');
  struct stat status {};
  ASSERT_EQ(::stat(wanted.output.c_str(), &status), 0);
  EXPECT_LT(status.st_blocks * 512, bytes * 3 / 4);
}

std::string text_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_F(ExportFiles, NamesByRules) {
  const fs::path file = directory_.path() / "rules";
  write_text_file(file, "# comment\n\nh\\.(\\d+)\\.(.*) -> layers.$1.$2\r\n  x -> x y  \n");
  const RenameRules rules = RenameRules::parse({"y=z", file.string(), "h.7.*=first.*"});
  EXPECT_EQ(rules.apply("h.12.attn.weight"), "layers.12.attn.weight");
  EXPECT_EQ(rules.apply("h.a.b"), "h.a.b");
  EXPECT_EQ(rules.apply("y"), "z");
  EXPECT_EQ(rules.apply("h.7.b"), "first.b");  // before what files say
  EXPECT_EQ(rules.apply("x"), "x y");
  EXPECT_EQ(rules.apply("xx"), "xx");  // the whole name or nothing
  EXPECT_EQ(rules.apply("h.1." + std::string(4000, 'z')), "layers.1." + std::string(4000, 'z'));
  EXPECT_THROW(rules.apply(std::string(100'000, 'z')), OptionError);
}

TEST_F(ExportFiles, MemoryDecidesHowManyWork) {
  ExportOptions wanted = options("out.h5");
  wanted.workers = 64;
  wanted.memory = 100 << 20;
  const Export job(wanted);
  EXPECT_EQ(job.memory().workers, 8);  // of 12 MiB each
  EXPECT_LE(job.memory().buffers + job.memory().tables, wanted.memory);
  wanted.memory = 1 << 20;
  EXPECT_NE(text_of([&] { Export{wanted}; }).find("--memory"), std::string::npos);
}

TEST_F(ExportFiles, OptionsThatDoNotGoTogether) {
  ExportOptions wanted = options("out.h5");
  wanted.shard_bytes = 100;
  EXPECT_NE(text_of([&] { Export{wanted}; }).find("--max-shard-size"), std::string::npos);
  wanted.format = ExportFormat::safetensors;
  write_text_file(wanted.output, "a file");
  EXPECT_NE(text_of([&] { Export{wanted}; }).find("folder"), std::string::npos);
  wanted.shard_bytes = 0;
  wanted.output = directory_.path();
  EXPECT_NE(text_of([&] { Export{wanted}; }).find("directory"), std::string::npos);
}

// 20,000 tensors give a ZIP archive more than 65,535 bytes of directory; counts need ZIP64 only from 65,535 entries on.
TEST_F(ExportFiles, ManyTensors) {
  std::vector<testing::SampleTensor> tensors;
  for (int i = 0; i < 3000; ++i) tensors.push_back({fmt::format("model/layer.{}.w", i), DType::float32, {3}, "u"});
  const fs::path many = write_sample(directory_.path() / "many", 1, 2, 5, tensors);
  for (const char* name : {"many.h5", "many.pt"}) {
    ExportOptions wanted = options(name);
    wanted.checkpoint = many;
    wanted.format = std::string(name) == "many.pt" ? ExportFormat::torch : ExportFormat::hdf5;
    EXPECT_EQ(export_checkpoint(wanted).tensors, 3000);
  }
}

}  // namespace
}  // namespace shoal::checkpoint

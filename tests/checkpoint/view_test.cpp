// The view of a checkpoint, through the HDF5 library that we link; tests/interop reads it with h5py and h5dump.
#include "checkpoint/view.h"

#include <gtest/gtest.h>

#include "checkpoint/catalog.h"
#include "checkpoint/checkpointer.h"
#include "checkpoint/file_names.h"
#include "checkpoint/sample_state.h"
#include "checkpoint/verify.h"
#include "comm/fake_process_group.h"
#include "core/error.h"
#include "core/file_io.h"
#include "hdf5/any_dataset.h"
#include "hdf5/attribute.h"

namespace shoal::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::SampleTensor;
using testing::TemporaryDirectory;
using testing::write_sample;

constexpr int kSalt = 5;

std::string bytes_seen(const fs::path& checkpoint, const TensorSpec& spec) {
  std::string bytes(static_cast<std::size_t>(spec.numel() * size_of(spec.dtype)), '\0');
  const hdf5::File file = hdf5::File::open_for_reading(checkpoint / kViewName);
  const std::string name = consolidated_dataset_path(spec.name);
  EXPECT_EQ(hdf5::find_dataset(file, name).shape, spec.shape);
  EXPECT_EQ(hdf5::find_dataset(file, name).dtype, spec.dtype);
  if (!bytes.empty())
    hdf5::read_box(file, name, spec.dtype, std::vector<std::int64_t>(spec.shape.size()), spec.shape, bytes.data());
  return bytes;
}

void expect_whole(const fs::path& checkpoint, const std::vector<SampleTensor>& tensors) {
  write_view(checkpoint, open_checkpoint(checkpoint), /*with_optimizer=*/true);
  const StateDict whole = testing::sample_state(tensors, 0, 1, kSalt);
  for (const ShardedTensor& tensor : whole.tensors) {
    const std::string expected(reinterpret_cast<const char*>(tensor.region.data),
                               static_cast<std::size_t>(tensor.region.count * size_of(tensor.spec.dtype)));
    EXPECT_EQ(bytes_seen(checkpoint, tensor.spec), expected) << tensor.spec.name;
  }
}

TEST(View, ShowsWholeTensorsOfAnyNumberOfRanks) {
  for (const int ranks : {1, 2, 3, 5, 8, 40}) {
    const TemporaryDirectory directory;
    expect_whole(write_sample(directory.path(), 7, ranks, kSalt), testing::sample_tensors());
  }
}

TEST(View, ShowsWholeTensorsOfSharedFiles) {
  const TemporaryDirectory directory;
  comm::FakeWorld(7).run([&](comm::ProcessGroup& world) {
    CheckpointerOptions options;
    options.directory = directory.path();
    options.files = 3;
    const StateDict state = testing::sample_state(testing::sample_tensors(), world.rank(), 7, kSalt);
    Checkpointer(world, options).save(7, state, testing::kTrainingState);
  });
  expect_whole(directory.path() / step_directory_name(7), testing::sample_tensors());
}

void save_with_view(const fs::path& directory, const SaveObserver& observer = {}) {
  comm::FakeWorld(3).run([&](comm::ProcessGroup& world) {
    CheckpointerOptions options;
    options.directory = directory;
    options.view = true;
    options.observer = observer;
    const StateDict state = testing::sample_state(testing::sample_tensors(), world.rank(), 3, kSalt);
    Checkpointer(world, options).save(7, state, testing::kTrainingState);
  });
}

TEST(View, ASaveMakesIt) {
  const TemporaryDirectory directory;
  save_with_view(directory.path());
  const fs::path checkpoint = directory.path() / step_directory_name(7);
  EXPECT_EQ(verify(checkpoint).problem_count(), 0);
  const hdf5::File file = hdf5::File::open_for_reading(checkpoint / kViewName);
  EXPECT_EQ(hdf5::read_string_attribute(file, "checkpoint"), read_manifest(checkpoint).id);
  EXPECT_FALSE(bytes_seen(checkpoint, read_manifest(checkpoint).tensors[0].spec).empty());
}

TEST(View, ASaveGoesOnWithoutIt) {
  const TemporaryDirectory directory;
  ::testing::internal::CaptureStderr();
  save_with_view(directory.path(), [&](SavePoint point) {
    if (point != SavePoint::shard_synced) return;
    for (const auto& entry : fs::directory_iterator(directory.path()))
      fs::create_directories(entry.path() / kViewName / "in the way");
  });
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("step 7 is saved without a view: "), std::string::npos) << said;
  EXPECT_EQ(verify(directory.path() / step_directory_name(7)).problem_count(), 0);
}

TEST(View, AnotherOneReplacesIt) {
  const TemporaryDirectory directory;
  const fs::path checkpoint = write_sample(directory.path(), 7, 3, kSalt);
  const Manifest manifest = open_checkpoint(checkpoint);
  const ViewReport all = write_view(checkpoint, manifest, /*with_optimizer=*/true);
  const ViewReport model = write_view(checkpoint, manifest, /*with_optimizer=*/false);
  EXPECT_EQ(all.tensors, static_cast<std::int64_t>(manifest.tensors.size()));
  EXPECT_EQ(model.tensors, all.tensors - 3);
  const hdf5::File file = hdf5::File::open_for_reading(checkpoint / kViewName);
  EXPECT_THROW(hdf5::find_dataset(file, "/optimizer/exp_avg/conv1.weight"), hdf5::Hdf5Error);
  EXPECT_EQ(hdf5::read_string_attribute(file, "checkpoint"), manifest.id);
  EXPECT_EQ(hdf5::read_int64_attribute(file, "requires_files"), 3);
  EXPECT_EQ(hdf5::read_int64_attribute(file, "step"), 7);
}

// Rank 0 holds all of both; that the others' files are there makes no difference to who looks.
TEST(View, FilesThatHoldNothingAreNotRequired) {
  const TemporaryDirectory directory;
  const fs::path checkpoint = write_sample(directory.path(), 7, 9, kSalt, {{"model/w", DType::float32, {2}, "u"}});
  EXPECT_EQ(write_view(checkpoint, open_checkpoint(checkpoint), false).files, 2);
}

TEST(View, ADamagedOneDamagesNothing) {
  const TemporaryDirectory directory;
  const fs::path checkpoint = write_sample(directory.path(), 7, 3, kSalt);
  write_text_file(checkpoint / kViewName, "no HDF5 file");
  EXPECT_EQ(verify(checkpoint).problem_count(), 0);
  expect_whole(checkpoint, testing::sample_tensors());
}

// What a save with a view costs. GPT-2's 148 parameters, of few elements: how many makes no difference.
TEST(View, DISABLED_Cost) {
  std::vector<SampleTensor> tensors;
  for (int i = 0; i < 148; ++i)
    tensors.push_back({fmt::format("model/transformer.h.{}.attention.weight", i), DType::float32, {61, 48}, "u"});
  for (int i = 0; i < 296; ++i)
    tensors.push_back({fmt::format("optimizer/exp_{}/transformer.h.{}.attention.weight", i / 148, i % 148),
                       DType::float32,
                       {61, 48},
                       "v"});
  for (const int ranks : {8, 64, 512}) {
    const TemporaryDirectory directory;
    const fs::path checkpoint = write_sample(directory.path(), 7, ranks, kSalt, tensors);
    const ViewReport report = write_view(checkpoint, open_checkpoint(checkpoint), /*with_optimizer=*/false);
    fmt::print("{} files, {} boxes: {:.1f} ms, {} KiB\n", ranks, report.boxes, 1e3 * report.seconds,
               report.bytes / 1024);
    EXPECT_EQ(report.tensors, 148);
  }
}

TEST(View, NoneOfADamagedCheckpointOrOfTooManyFiles) {
  const TemporaryDirectory directory;
  const fs::path checkpoint = write_sample(directory.path(), 7, 3, kSalt);
  const Manifest manifest = open_checkpoint(checkpoint);
  testing::flip_bit(checkpoint / manifest.files[1].name, 3);
  EXPECT_THROW(write_view(checkpoint, manifest, false), CheckpointError);
  Manifest wide = manifest;
  wide.files.resize(static_cast<std::size_t>(kMostViewFiles) + 1);
  EXPECT_THROW(write_view(checkpoint, wide, false), OptionError);
  EXPECT_FALSE(fs::exists(checkpoint / kViewName));
  EXPECT_FALSE(fs::exists(checkpoint / (std::string(kViewName) + ".part")));
}

}  // namespace
}  // namespace shoal::checkpoint

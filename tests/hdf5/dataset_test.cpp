#include "hdf5/dataset.h"

#include <gtest/gtest.h>

#include <fstream>

#include "hdf5/datatype.h"
#include "hdf5/temporary_file.h"

namespace shoal::hdf5 {
namespace {

using testing::TemporaryFile;

std::vector<float> read_with_hdf5(const File& file, const char* name, std::size_t count) {
  const DatasetHandle dataset(call("H5Dopen2", name, H5Dopen2, file.id(), name, H5P_DEFAULT));
  std::vector<float> values(count);
  call("H5Dread", name, H5Dread, dataset.get(), H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT,
       static_cast<void*>(values.data()));
  return values;
}

TEST(Dataset, BytesWrittenPastHdf5AreItsElements) {
  const TemporaryFile temporary;
  File file = File::create_in_memory("test");
  const auto type = file_type(DType::float32);
  const Placement small = create_contiguous(file, "/model/small", type.get(), {2, 3});
  const Placement large = create_contiguous(file, "/model/large", type.get(), {100, 1000});
  temporary.store(file);
  EXPECT_EQ(small.numel(), 6);
  EXPECT_EQ(large.file_offset % 4096, 0);
  EXPECT_GE(std::filesystem::file_size(temporary.path()), 400'000u);

  const std::vector<float> values{1, 2, 3, 4, 5, 6};
  std::fstream raw(temporary.path(), std::ios::in | std::ios::out | std::ios::binary);
  raw.seekp(small.file_offset);
  raw.write(reinterpret_cast<const char*>(values.data()), 24);
  raw.close();
  const File again = File::open_for_reading(temporary.path());
  EXPECT_EQ(read_with_hdf5(again, "/model/small", 6), values);
  const Placement found = find_dataset(again, "/model/small");
  EXPECT_EQ(found.file_offset, small.file_offset);
  EXPECT_EQ(found.shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(found.dtype, DType::float32);
  EXPECT_EQ(found.element_bytes, 4);
}

TEST(Dataset, ScalarsAndEmptyOnes) {
  const TemporaryFile temporary;
  File file = File::create_in_memory("test");
  const auto type = file_type(DType::int64);
  const Placement scalar = create_contiguous(file, "/scalar", type.get(), {});
  EXPECT_TRUE(scalar.shape.empty());
  EXPECT_EQ(scalar.numel(), 1);
  EXPECT_GT(scalar.file_offset, 0);
  const Placement empty = create_contiguous(file, "/empty", type.get(), {0, 4});
  EXPECT_EQ(empty.numel(), 0);
  EXPECT_EQ(empty.file_offset, -1);
  temporary.store(file);
  EXPECT_EQ(find_dataset(File::open_for_reading(temporary.path()), "/empty").shape, (std::vector<std::int64_t>{0, 4}));
}

TEST(Dataset, MissingAndDoubleNamesAreErrors) {
  const TemporaryFile temporary;
  File file = File::create_in_memory("test");
  create_contiguous(file, "/x", file_type(DType::int8).get(), {1});
  EXPECT_THROW(create_contiguous(file, "/x", file_type(DType::int8).get(), {1}), Hdf5Error);
  EXPECT_THROW(find_dataset(file, "/y"), Hdf5Error);
}

}  // namespace
}  // namespace shoal::hdf5

// Sources of an import with cut ends, wrong bytes and missing files: a named error that leaves nothing behind, or a
// checkpoint that verifies.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <random>

#include "checkpoint/import.h"
#include "checkpoint/sample_state.h"
#include "checkpoint/verify.h"
#include "checkpoint/weights_file.h"
#include "core/error.h"

namespace shoal::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr const char* kGoldens = SHOAL_GOLDENS;

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
void write_file(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

class ImportDamage : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    fs::copy(fs::path(kGoldens) / GetParam(), source(), fs::copy_options::recursive);
    for (const auto& entry : fs::recursive_directory_iterator(source()))
      if (entry.is_regular_file() && entry.path().filename() != "latest") files_.push_back(entry.path());
    std::sort(files_.begin(), files_.end());
  }
  fs::path source() const { return directory_.path() / "source"; }
  fs::path output() const { return directory_.path() / "output"; }

  // Whether a checkpoint came of it.
  bool import() {
    fs::remove_all(output());
    try {
      const ImportReport report = import_checkpoint({.source = source(), .output = output(), .ranks = 2});
      EXPECT_EQ(verify(report.path).problem_count(), 0);
      return true;
    } catch (const CheckpointError& error) {
      EXPECT_FALSE(std::string(error.what()).empty());
    } catch (const IoError&) {  // a file that is not there
    }
    EXPECT_TRUE(!fs::exists(output()) || fs::is_empty(output()));
    return false;
  }

  testing::TemporaryDirectory directory_{testing::memory_folder()};
  std::vector<fs::path> files_;
};

// What --init-from sees: the model alone, under its own names.
TEST_P(ImportDamage, WeightsAlone) {
  const std::unique_ptr<WeightsFile> file = WeightsFile::open(source());
  std::int64_t weights = 0;
  for (const TensorSpec& spec : file->tensors()) {
    EXPECT_EQ(spec.name.find('/'), std::string::npos) << spec.name;
    weights += spec.name.ends_with(".weight");
    std::vector<std::byte> elements(static_cast<std::size_t>(spec.numel() * size_of(spec.dtype)));
    file->read(static_cast<std::size_t>(&spec - file->tensors().data()), 0, spec.numel(), elements.data());
  }
  EXPECT_GE(weights, 2);
}

TEST_P(ImportDamage, MemoryIsKeptTo) {
  ImportOptions wanted{.source = source(), .output = output(), .ranks = 2, .workers = 100};
  wanted.dry_run = true;
  const ImportMemory all = import_checkpoint(wanted).memory;
  EXPECT_EQ(all.workers, 100);
  wanted.memory = 50 << 20;
  const ImportMemory some = import_checkpoint(wanted).memory;
  EXPECT_EQ(some.workers, 12);  // of 4 MiB each
  EXPECT_LE(some.tables + some.buffers, wanted.memory);
  wanted.memory = 10 << 20;
  try {
    import_checkpoint(wanted);
    ADD_FAILURE() << "no error";
  } catch (const OptionError& error) {
    EXPECT_NE(std::string(error.what()).find("--memory 10485760 is too little"), std::string::npos) << error.what();
  }
}

TEST_P(ImportDamage, MissingOrCutFiles) {
  EXPECT_TRUE(import());
  for (const fs::path& file : files_) {
    const std::string good = read_file(file);
    fs::remove(file);
    EXPECT_FALSE(import()) << file << " is missing";
    for (const std::size_t size : {std::size_t{0}, good.size() / 3, good.size() - 1}) {
      write_file(file, good.substr(0, size));
      EXPECT_FALSE(import()) << file << " is cut to " << size;
    }
    write_file(file, good);
  }
  EXPECT_TRUE(import());
}

TEST_P(ImportDamage, WrongBytes) {
  std::mt19937 random(11);
  std::size_t refused = 0;
  constexpr std::size_t kTries = 150;
  for (std::size_t i = 0; i < kTries; ++i) {
    const fs::path& file = files_[random() % files_.size()];
    const std::string good = read_file(file);
    std::string bytes = good;
    for (std::size_t wrong = 1 + random() % 8; wrong > 0; --wrong)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    write_file(file, bytes);
    refused += !import();
    write_file(file, good);
  }
  EXPECT_GT(refused, kTries / 10);
}

INSTANTIATE_TEST_SUITE_P(, ImportDamage,
                         ::testing::Values("dcp_torch-2.1.2", "dcp_torch-2.15.0", "zero1_deepspeed-0.19.8",
                                           "zero2_deepspeed-0.19.8", "zero3_deepspeed-0.19.8"),
                         [](const auto& golden) {
                           std::string name = golden.param;
                           for (char& c : name)
                             if (c == '.' || c == '-') c = '_';
                           return name;
                         });

}  // namespace
}  // namespace shoal::checkpoint

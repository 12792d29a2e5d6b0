// What must hold for any bytes in the place of a manifest, a COMMIT file, a table of regions or a shard file: a
// CheckpointError, or what keeps its promises; and no memory for what is only claimed. The first byte says which it is.
// For libFuzzer, and for the driver in checkpoint_fuzz_driver.cpp, which needs no clang.
#include "checkpoint/checkpoint_fuzz.h"

#include "checkpoint/catalog.h"
#include "checkpoint/commit_record.h"
#include "checkpoint/region_table.h"
#include "checkpoint/sample_state.h"
#include "checkpoint/shard_reader.h"
#include "core/file_io.h"

namespace {

using namespace shoal;
using namespace shoal::checkpoint;
using shoal::testing::require;

// A sound checkpoint of two ranks, whose first shard file is what each input for a shard takes the place of.
struct Sound {
  testing::TemporaryDirectory directory{testing::memory_folder()};
  std::filesystem::path path = testing::write_sample(directory.path(), 7, 2, 1);
  Manifest manifest = read_manifest(path);
  std::filesystem::path shard = path / manifest.files[0].name;
  std::string manifest_text = read_text_file(path / "manifest.json");
  std::string commit_text = read_text_file(path / "COMMIT");
  std::string shard_text = read_text_file(shard);
  std::string table_text = table_bytes(ShardReader(path, manifest, 0).regions());
};

const Sound& sound() {
  static const Sound instance;
  return instance;
}

void check_manifest(const std::string& text) {
  const Manifest manifest = parse_manifest(text, "fuzz");
  const std::string written = format_manifest(manifest);
  require(format_manifest(parse_manifest(written, "fuzz")) == written, "a manifest changes when it is written again");
  require(manifest.tensor_bytes() >= 0, "a negative size");
}

void check_commit(const std::string& text) {
  require(format_commit(parse_commit(text, "fuzz")) == text, "a COMMIT that is not written as it was read");
}

void check_table(std::string bytes) {
  bytes.resize(bytes.size() / sizeof(RegionRow) * sizeof(RegionRow));
  const RegionTable table = table_from_bytes(bytes);
  check_rows(table, sound().manifest, "fuzz");
  for (const RegionRow& row : table) require(!describe(row, sound().manifest).empty(), "a row without a name");
  check_coverage({table}, sound().manifest, "fuzz");
}

void check_shard(const std::string& bytes) {
  write_text_file(sound().shard, bytes);
  Manifest manifest = sound().manifest;
  manifest.files[0].bytes = static_cast<std::int64_t>(bytes.size());
  ShardReader reader(sound().path, manifest, 0);
  for (std::size_t region = 0; region < reader.regions().size(); ++region) {
    std::uint64_t got = 0;
    const RegionRow& row = reader.regions()[region];
    reader.read(region, [&](std::int64_t, const std::byte*, std::size_t count) { got += count; });
    require(got == row.count * static_cast<std::uint64_t>(size_of(manifest.tensors[row.tensor].spec.dtype)),
            "a region that is not of its size");
  }
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  return {"m" + sound().manifest_text, "c" + sound().commit_text, "t" + sound().table_text, "s" + sound().shard_text};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const shoal::testing::FuzzChecks checks{
      {'m', check_manifest}, {'c', check_commit}, {'t', check_table}, {'s', check_shard}};
  return shoal::testing::check_input(checks, data, size);
}

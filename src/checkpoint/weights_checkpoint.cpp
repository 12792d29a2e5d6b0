// Weights of a sharded checkpoint, for a run that starts from them with an optimizer of its own.
#include <algorithm>
#include <set>

#include "checkpoint/catalog.h"
#include "checkpoint/file_names.h"
#include "checkpoint/shard_reader.h"
#include "checkpoint/weights_file.h"

namespace shoal::checkpoint {
namespace {

struct Part {
  std::int64_t begin = 0, count = 0;  // elements of the tensor
  std::size_t file = 0, region = 0;
};

class Source {
 public:
  Source(const std::filesystem::path& path, Manifest manifest) : path_(path), manifest_(std::move(manifest)) {
    parts_.resize(manifest_.tensors.size());
    std::vector<RegionTable> tables;
    for (std::size_t file = 0; file < manifest_.files.size(); ++file) {
      tables.push_back(ShardReader(path, manifest_, file).regions());
      for (std::size_t region = 0; region < tables[file].size(); ++region) {
        const RegionRow& row = tables[file][region];
        parts_[row.tensor].push_back(
            {static_cast<std::int64_t>(row.begin), static_cast<std::int64_t>(row.count), file, region});
      }
    }
    check_coverage(tables, manifest_, path.string());
    for (std::vector<Part>& parts : parts_)
      std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.begin < b.begin; });
  }

  const Manifest& manifest() const { return manifest_; }

  void read(std::size_t tensor, std::int64_t begin, std::int64_t count, std::byte* into) {
    const std::int64_t width = size_of(manifest_.tensors[tensor].spec.dtype);
    for (const Part& part : parts_[tensor]) {
      const std::int64_t from = std::max(begin, part.begin), to = std::min(begin + count, part.begin + part.count);
      if (from >= to) continue;
      ShardReader& reader = reader_of(part.file);
      // The checksum is that of the whole region, which is read once for it; what is wanted is then in the cache.
      if (compared_.insert({part.file, part.region}).second)
        reader.read(part.region, [](std::int64_t, const std::byte*, std::size_t) {});
      reader.read_part(part.region, (from - part.begin) * width, into + (from - begin) * width,
                       static_cast<std::size_t>((to - from) * width));
    }
  }

 private:
  // One at a time is open: the ranks of a large job shall not run out of descriptors.
  ShardReader& reader_of(std::size_t file) {
    if (reader_ == nullptr || reader_file_ != file) {
      reader_.reset();
      reader_ = std::make_unique<ShardReader>(path_, manifest_, file);
      reader_file_ = file;
    }
    return *reader_;
  }

  std::filesystem::path path_;
  Manifest manifest_;
  std::vector<std::vector<Part>> parts_;  // of each tensor, in its order
  std::set<std::pair<std::size_t, std::size_t>> compared_;
  std::unique_ptr<ShardReader> reader_;
  std::size_t reader_file_ = 0;
};

}  // namespace

WeightsContents open_checkpoint_weights(const std::filesystem::path& path) {
  const auto source = std::make_shared<Source>(path, open_checkpoint(path));
  WeightsContents contents{"checkpoint", {}, {}, {}, {}};
  std::vector<std::size_t> places;  // in the manifest, of each tensor of the model
  const auto& tensors = source->manifest().tensors;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!is_model_tensor(tensors[i].spec.name)) continue;
    contents.tensors.push_back(tensors[i].spec);
    contents.tensors.back().name = parameter_name(tensors[i].spec.name);
    places.push_back(i);
  }
  contents.notes.push_back(fmt::format("step {}, without its optimizer", source->manifest().step));
  contents.read = [source, places](std::size_t tensor, std::int64_t begin, std::int64_t count, std::byte* into) {
    source->read(places[tensor], begin, count, into);
  };
  return contents;
}

}  // namespace shoal::checkpoint

// A model in several files, with an index that says which tensor is in which, as Hugging Face writes it.
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "checkpoint/weights_file.h"
#include "core/check.h"
#include "core/file_io.h"

namespace shoal::checkpoint {
namespace fs = std::filesystem;
namespace {

constexpr std::int64_t kMostIndexBytes = 256 << 20;

struct Index {
  std::map<std::string, std::string> file_of;  // by tensor
  std::set<std::string> files;
};

// Only files beside the index: it must not lead out of its folder.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

Index read_index(const fs::path& path) {
  SHOAL_CHECK(InputFile(path).size() <= kMostIndexBytes, CheckpointError, "{} is too large for an index of weights",
              path.string());
  Index index;
  try {
    index.file_of = nlohmann::json::parse(read_text_file(path)).at("weight_map").get<decltype(index.file_of)>();
  } catch (const nlohmann::json::exception& error) {
    throw CheckpointError("{} is no index of weights ({{\"weight_map\": {{NAME: FILE}}}}): {}", path.string(),
                          error.what());
  }
  for (const auto& [tensor, file] : index.file_of) {
    SHOAL_CHECK(is_plain_name(file), CheckpointError, "{}: '{}' is no name of a file beside it", path.string(), file);
    index.files.insert(file);
  }
  return index;
}

std::unique_ptr<WeightsFile> open_part(const fs::path& index, const std::string& file) {
  const fs::path path = index.parent_path() / file;
  std::error_code ignored;
  SHOAL_CHECK(fs::is_regular_file(path, ignored), CheckpointError, "{} names the file '{}', which is not there",
              index.string(), file);
  return std::make_unique<WeightsFile>(path, open_single_file(path));
}

// Where each tensor of the whole is.
struct Parts {
  std::vector<std::unique_ptr<WeightsFile>> files;
  std::vector<std::pair<std::size_t, std::size_t>> places;  // file, tensor in it
};

void add_part(std::unique_ptr<WeightsFile> file, WeightsContents& contents, Parts& parts) {
  for (std::size_t i = 0; i < file->tensors().size(); ++i) {
    contents.tensors.push_back(file->tensors()[i]);
    parts.places.emplace_back(parts.files.size(), i);
  }
  contents.others.insert(contents.others.end(), file->others().begin(), file->others().end());
  for (const std::string& note : file->notes())
    contents.notes.push_back(fmt::format("{}: {}", file->path().filename().string(), note));
  parts.files.push_back(std::move(file));
}

// The index promises tensors: a part that lacks one is a part of another model, or cut.
void check_promises(const Index& index, const fs::path& path, const WeightsContents& contents, const Parts& parts) {
  std::map<std::string, std::string> found;
  for (std::size_t i = 0; i < contents.tensors.size(); ++i)
    found.emplace(contents.tensors[i].name, parts.files[parts.places[i].first]->path().filename().string());
  for (const formats::OtherEntry& other : contents.others) found.emplace(other.name, "");
  for (const auto& [tensor, file] : index.file_of) {
    const auto it = found.find(tensor);
    SHOAL_CHECK(it != found.end() && (it->second.empty() || it->second == file), CheckpointError,
                "{} promises '{}' in '{}', which does not have it", path.string(), tensor, file);
  }
}

}  // namespace

WeightsContents open_indexed(const fs::path& path) {
  const Index index = read_index(path);
  SHOAL_CHECK(!index.files.empty(), CheckpointError, "{} names no files", path.string());
  auto parts = std::make_shared<Parts>();
  WeightsContents contents;
  for (const std::string& file : index.files) add_part(open_part(path, file), contents, *parts);
  check_promises(index, path, contents, *parts);
  contents.format = fmt::format("{}, {} files", parts->files.front()->format(), parts->files.size());
  contents.read = [parts](std::size_t tensor, std::int64_t begin, std::int64_t count, std::byte* into) {
    const auto [file, place] = parts->places[tensor];
    parts->files[file]->read(place, begin, count, into);
  };
  return contents;
}

}  // namespace shoal::checkpoint

#include "data/token_paths.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>

#include "core/check.h"

namespace shoal::data {
namespace fs = std::filesystem;
namespace {

bool has_word(std::string_view name, std::string_view word) {
  constexpr std::string_view kSeparators = "_-.";
  while (!name.empty()) {
    const std::size_t end = std::min(name.find_first_of(kSeparators), name.size());
    if (name.substr(0, end) == word) return true;
    name.remove_prefix(std::min(end + 1, name.size()));
  }
  return false;
}

// The index of a Megatron pair, whose .bin stands for both.
bool is_second_of_pair(const fs::path& path) {
  std::error_code ignored;
  return path.extension() == ".idx" && fs::exists(fs::path(path).replace_extension(".bin"), ignored);
}

std::vector<fs::path> files_with_word(const fs::path& folder, std::initializer_list<std::string_view> words) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const auto fits = [&](std::string_view word) { return has_word(name, word); };
    const bool is_meant = name.front() != '.' && !name.ends_with(".part") && !is_second_of_pair(entry.path());
    if (is_meant && entry.is_regular_file() && std::ranges::any_of(words, fits)) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

std::vector<fs::path> files_in(const fs::path& folder, Split split) {
  try {
    if (split == Split::train) return files_with_word(folder, {"train"});
    auto files = files_with_word(folder, {"val", "valid", "validation"});
    return files.empty() ? files_with_word(folder, {"test"}) : files;
  } catch (const fs::filesystem_error& error) {
    throw DataError("cannot read the folder {}: {}", folder.string(), error.code().message());
  }
}

bool is_folder(const fs::path& path, const char* flag) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status)) return true;
  std::error_code ignored;
  const bool is_prefix = fs::exists(path.string() + ".idx", ignored);  // of a Megatron pair
  SHOAL_CHECK(fs::exists(status) || is_prefix, DataError, "{} {}: {}", flag, path.string(),
              error ? error.message() : "there is no such file or folder");
  return false;
}

}  // namespace

std::vector<fs::path> token_paths(const DataRequest& request, Split split) {
  const bool own_test_path = split == Split::test && !request.test_path.empty();
  const fs::path& path = own_test_path ? request.test_path : request.path;
  const char* flag = own_test_path ? "--test-data" : "--data";
  if (!is_folder(path, flag)) {
    const bool wanted = split == Split::train || own_test_path;
    return wanted ? std::vector{path} : std::vector<fs::path>{};
  }
  auto files = files_in(path, split);
  SHOAL_CHECK(!files.empty() || (split == Split::test && !own_test_path), DataError,
              "{} {}: no file in this folder has '{}' in its name; name the file itself", flag, path.string(),
              split == Split::train ? "train" : "val' or 'test");
  return files;
}

}  // namespace shoal::data

#include "checkpoint/catalog.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <tuple>

#include "checkpoint/commit_record.h"
#include "checkpoint/file_names.h"
#include "core/check.h"
#include "core/crc32c.h"
#include "core/file_io.h"

namespace shoal::checkpoint {
namespace fs = std::filesystem;
namespace {

std::string read_part(const fs::path& checkpoint, const char* name) {
  try {
    return read_text_file(checkpoint / name);
  } catch (const DescriptorLimitError&) {
    throw;  // says nothing of the checkpoint
  } catch (const IoError& error) {
    throw CheckpointError("{} is no complete checkpoint: {}", checkpoint.string(), error.what());
  }
}

CommitRecord read_commit(const fs::path& checkpoint) {
  return parse_commit(read_part(checkpoint, kCommitName), (checkpoint / kCommitName).string());
}

std::int64_t sequence_or_unknown(const fs::path& checkpoint) {
  try {
    return read_commit(checkpoint).sequence;
  } catch (const CheckpointError&) {
    return -1;  // open_checkpoint() will say why
  }
}

bool is_newer(const CatalogEntry& a, const CatalogEntry& b) {
  return std::tuple(a.sequence, a.step, a.path) > std::tuple(b.sequence, b.step, b.path);
}

// Where nothing tells when a checkpoint was saved, its step has to: it goes in front of the first that is not later.
void insert_by_step(std::vector<CatalogEntry>& newest_first, CatalogEntry entry) {
  const auto place = std::find_if(newest_first.begin(), newest_first.end(),
                                  [&](const CatalogEntry& other) { return other.step <= entry.step; });
  newest_first.insert(place, std::move(entry));
}

void check_sizes(const fs::path& checkpoint, const Manifest& manifest) {
  for (const ShardFile& file : manifest.files) {
    std::error_code error;
    const auto bytes = fs::file_size(checkpoint / file.name, error);
    SHOAL_CHECK(!error, CheckpointError, "{}: file {} cannot be read: {}", checkpoint.string(), file.name,
                error.message());
    SHOAL_CHECK(bytes == static_cast<std::uintmax_t>(file.bytes), CheckpointError,
                "{}: file {} has {} bytes, {} were written: it is damaged", checkpoint.string(), file.name, bytes,
                file.bytes);
  }
}

void check_identity(const fs::path& path, const Manifest& manifest) {
  const CommitRecord commit = read_commit(path);
  SHOAL_CHECK(manifest.id == commit.id && manifest.sequence == commit.sequence, CheckpointError,
              "{} and {} are of different checkpoints", (path / kManifestName).string(), kCommitName);
}

}  // namespace

std::vector<CatalogEntry> list_checkpoints(const fs::path& directory) {
  std::vector<CatalogEntry> entries, of_unknown_age;
  std::error_code error;
  fs::directory_iterator files(directory, error);
  if (error == std::errc::no_such_file_or_directory) return entries;
  for (; !error && files != fs::directory_iterator(); files.increment(error)) {
    const auto name = parse_step_directory_name(files->path().filename().string());
    if (!name || name->kind == DirectoryKind::temporary) continue;
    const CatalogEntry entry{files->path(), name->step, sequence_or_unknown(files->path())};
    (entry.sequence < 0 ? of_unknown_age : entries).push_back(entry);
  }
  if (error) throw_io_error("read the directory", directory, error.value());
  std::sort(entries.begin(), entries.end(), is_newer);
  for (const CatalogEntry& entry : of_unknown_age) insert_by_step(entries, entry);
  return entries;
}

std::string read_manifest_text(const fs::path& path) {
  const CommitRecord commit = read_commit(path);
  std::string text = read_part(path, kManifestName);
  const bool intact = static_cast<std::int64_t>(text.size()) == commit.manifest_bytes &&
                      crc32c(text.data(), text.size()) == commit.manifest_crc;
  SHOAL_CHECK(intact, CheckpointError, "{} does not match its size and checksum in {}: it is damaged",
              (path / kManifestName).string(), kCommitName);
  return text;
}

void check_opened(const fs::path& path, const Manifest& manifest) {
  check_identity(path, manifest);
  check_sizes(path, manifest);
}

Manifest read_manifest(const fs::path& path) {
  Manifest manifest = parse_manifest(read_manifest_text(path), (path / kManifestName).string());
  check_identity(path, manifest);
  return manifest;
}

Manifest open_checkpoint(const fs::path& path) {
  Manifest manifest = read_manifest(path);
  check_sizes(path, manifest);
  return manifest;
}

bool is_checkpoint(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path / kManifestName, ignored) || fs::exists(path / kCommitName, ignored) ||
         parse_step_directory_name(path.lexically_normal().filename().string()).has_value();
}

fs::path resolve_checkpoint(const fs::path& path) {
  std::error_code ignored;
  return is_checkpoint(path) && fs::is_directory(path, ignored) ? path : checkpoints_in(path).front().path;
}

std::vector<CatalogEntry> checkpoints_in(const fs::path& path) {
  std::error_code error;
  SHOAL_CHECK(fs::is_directory(path, error), CheckpointError, "{} is no checkpoint and no directory of checkpoints",
              path.string());
  SHOAL_CHECK(!is_checkpoint(path), OptionError, "{} is one checkpoint; give the directory that holds it",
              path.string());
  std::vector<CatalogEntry> entries = list_checkpoints(path);
  SHOAL_CHECK(!entries.empty(), CheckpointError, "there is no checkpoint in {}", path.string());
  return entries;
}

void check_unchanged(const std::vector<CatalogEntry>& entries, const std::vector<std::uint64_t>& numbers) {
  for (std::size_t i = 0; i < entries.size(); ++i) {
    struct stat status {};
    SHOAL_CHECK(::stat(entries[i].path.c_str(), &status) == 0 && status.st_ino == numbers.at(i), IoError,
                "{} is gone or another one meanwhile: a job saves there; run this again", entries[i].path.string());
  }
}

std::uint64_t directory_number(const fs::path& path) {
  struct stat status {};
  SHOAL_CHECK(::stat(path.c_str(), &status) == 0, IoError, "cannot examine {}: {}", path.string(),
              std::generic_category().message(errno));
  return status.st_ino;
}

}  // namespace shoal::checkpoint

// Which checkpoints there are, and which is the newest.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"

namespace shoal::checkpoint {

struct CatalogEntry {
  std::filesystem::path path;
  std::int64_t step = 0;
  std::int64_t sequence = -1;  // -1: the COMMIT file cannot tell
};

// The checkpoints of `directory`, newest first: by their sequence numbers, not by step, since a run may go back to an
// older one. Those whose COMMIT is missing or damaged are listed too, by their step: whoever wants the newest must hear
// of them. Attempts (.tmp.) are not listed. Empty where the directory does not exist; IoError where it cannot be read.
std::vector<CatalogEntry> list_checkpoints(const std::filesystem::path& directory);

// Reads COMMIT and, confirmed by it, the manifest of one checkpoint. CheckpointError that says what is missing or
// wrong.
Manifest read_manifest(const std::filesystem::path& path);

// The same, and the sizes of all files are as the manifest says. Bytes of tensors are not read: that is verify's task,
// and that of whoever reads them.
Manifest open_checkpoint(const std::filesystem::path& path);
// In two parts, between which the text may go to others, who parse it as well: the manifest's text, confirmed by
// COMMIT, and what is left to be checked once it is parsed.
std::string read_manifest_text(const std::filesystem::path& path);
void check_opened(const std::filesystem::path& path, const Manifest& manifest);

// `path` itself where it is one checkpoint; the newest one where it is a directory of checkpoints. CheckpointError
// where it is neither.
std::filesystem::path resolve_checkpoint(const std::filesystem::path& path);

// True for one checkpoint, sound or not, as opposed to a directory of checkpoints.
bool is_checkpoint(const std::filesystem::path& path);

// A number by which a checkpoint is known again under another name, or missed under its own: that of its directory in
// the file system. IoError where it is not there.
std::uint64_t directory_number(const std::filesystem::path& path);

// IoError where one of the checkpoints is gone, or another has its name: a job saves there meanwhile. `numbers`: of the
// same, in the same order.
void check_unchanged(const std::vector<CatalogEntry>& entries, const std::vector<std::uint64_t>& numbers);

// `path` where it is a directory of checkpoints with at least one in it, as list_checkpoints() gives them. OptionError
// where it is one checkpoint, CheckpointError where there is none.
std::vector<CatalogEntry> checkpoints_in(const std::filesystem::path& path);

}  // namespace shoal::checkpoint

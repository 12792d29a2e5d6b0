// Every name on the disk is built and parsed here.
//   DIR/latest                                  names the newest checkpoint
//   DIR/step_00001000/                          a complete checkpoint
//   DIR/step_00001000.tmp.000003.<id>/          a save of attempt 3 that is under way, or what it is removing; swept by
//                                               the next save or attempt. Without a number: of a writer without a fence
//   DIR/step_00001000.old.<id>/                 complete; displaced by a new checkpoint of the same step
//   DIR/damaged_step_00001000.<id>/             set aside by 'shoal ckpt repair'; never read, never deleted
//   DIR/attempts/000003, 000003.writer          attempts (fence.h)
//   …/manifest.json, COMMIT, shards/<id>_rank_00003.h5, or <id>_group_00003.h5 where ranks share files, model.h5
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace shoal::checkpoint {

inline constexpr const char* kManifestName = "manifest.json";
inline constexpr const char* kCommitName = "COMMIT";
inline constexpr const char* kViewName = "model.h5";
inline constexpr const char* kLatestName = "latest";
inline constexpr const char* kShardFolder = "shards";
inline constexpr const char* kAttemptFolder = "attempts";
inline constexpr const char* kRegionsDataset = "/regions";
inline constexpr const char* kPlacesDataset = "/places";
inline constexpr std::string_view kModelPrefix = "model/";
inline constexpr std::string_view kOptimizerPrefix = "optimizer/";

enum class DirectoryKind { complete, displaced, temporary };

struct StepDirectory {
  std::int64_t step = 0;
  DirectoryKind kind = DirectoryKind::complete;
  int attempt = 0;  // of temporary ones; 0: of a writer without a fence
};

inline constexpr std::size_t kIdDigits = 16;
std::string make_checkpoint_id();  // kIdDigits random hexadecimal digits
bool is_checkpoint_id(std::string_view text);

std::string step_directory_name(std::int64_t step);
std::string temporary_directory_name(std::int64_t step, int attempt, std::string_view id);
std::string displaced_directory_name(std::int64_t step, std::string_view id);
// Not parsed by anything: Shoal has no further use for it.
std::string evidence_directory_name(std::int64_t step, std::string_view id);
// Nothing where the name is none of the first three.
std::optional<StepDirectory> parse_step_directory_name(std::string_view name);

struct AttemptFile {
  int attempt = 0;
  bool writer = false;
};
std::string attempt_file_name(int attempt, bool writer);
std::optional<AttemptFile> parse_attempt_file_name(std::string_view name);

// Relative to the checkpoint's directory: that of one rank, or the `index`-th of those that several ranks share.
std::string shard_file_name(std::string_view id, int index, bool one_a_rank);

// A tensor's dataset in a shard file: "/model/fc1.weight", "/optimizer/exp_avg/fc1.weight". '/' and '%' within the
// parameter's name are written as %2F and %25. InternalError where the name is not of the form that state_dict.h says.
std::string shard_dataset_path(std::string_view tensor_name);
// In a consolidated file: "/fc1.weight", "/optimizer/exp_avg/fc1.weight".
std::string consolidated_dataset_path(std::string_view tensor_name);
// The parameter whose dataset stands at the root of a consolidated file: "/fc1.weight" → "fc1.weight".
std::string parameter_of_dataset(std::string_view path);

bool is_model_tensor(std::string_view tensor_name);
// "model/fc1.weight" → "fc1.weight"
std::string_view parameter_name(std::string_view tensor_name);

}  // namespace shoal::checkpoint

// Saves and restores of small states on ranks that are threads, and looks at what they left.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/fence.h"
#include "checkpoint/save_point.h"

namespace shoal::testing {

inline constexpr int kSavingRanks = 2;

// Collectively on kSavingRanks ranks, keeping two; throws what save() throws. `observer` is told by all ranks.
void save_sample(const std::filesystem::path& directory, std::int64_t step, int salt,
                 const checkpoint::SaveObserver& observer = {}, const std::optional<checkpoint::Fence>& fence = {});

// The step that a restart on three ranks finds; fails the test unless every element is that of `salt_of(step)`.
std::int64_t restored_step(const std::filesystem::path& directory, const std::function<int(std::int64_t)>& salt_of);

// Has its number, and has entered.
checkpoint::Fence new_attempt(const std::filesystem::path& directory);
// Unfinished saves.
std::int64_t temporaries_in(const std::filesystem::path& directory);

std::vector<checkpoint::SavePoint> all_save_points();

// Every file below, with a checksum of what is in it.
std::map<std::string, std::uint32_t> contents_of(const std::filesystem::path& directory);

// Runs `body` in a child process and returns how it ended, as waitpid() tells. The child ends with the exit code of
// what `body` throws.
int status_of_child(const std::function<void()>& body);
bool was_killed(int status);  // by SIGKILL

}  // namespace shoal::testing

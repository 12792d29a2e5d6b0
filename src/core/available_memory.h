// Memory of this computer that a process may still take.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace shoal {

// Bytes that the kernel would give without swapping (MemAvailable), or what the control groups of this process (those
// of a Slurm job, say) leave where that is less. Nothing where the system does not tell. `root`: where proc/ and sys/
// are.
std::optional<std::int64_t> available_memory(const std::filesystem::path& root = "/");

}  // namespace shoal

// The file that all ranks of a job are to write at once, before they do: the ranks may be on nodes that do not see at
// once what another one does.
#pragma once

#include <cstdint>
#include <filesystem>

#include "checkpoint/export_pieces.h"
#include "comm/process_group.h"

namespace shoal::checkpoint {

// Collective over `world`: a name beside `output` that no node has looked for before.
std::filesystem::path new_part(comm::ProcessGroup& world, const std::filesystem::path& output);

// For one rank. What exports to `output` that were killed have left, of whichever kind they were.
void remove_leftovers(const std::filesystem::path& output);

// For one rank. Makes the file, with the stripes that it keeps, writes its structure without MPI, and reserves room:
// MPI-IO is not to be the one that finds the disk full. IoError where it cannot be made or there is no room.
void lay_out_part(const std::filesystem::path& part, const ExportSource& source);

// Waits until the file is to be seen here with that size. IoError after a minute.
void await_part(const std::filesystem::path& part, std::int64_t bytes);

}  // namespace shoal::checkpoint

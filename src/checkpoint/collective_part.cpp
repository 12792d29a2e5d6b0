#include "checkpoint/collective_part.h"

#include <chrono>
#include <thread>
#include <vector>

#include "checkpoint/export_parts.h"
#include "checkpoint/file_names.h"
#include "core/check.h"
#include "core/timer.h"
#include "hdf5/mpio.h"

namespace shoal::checkpoint {
namespace fs = std::filesystem;
namespace {

// -1: it is not to be seen.
std::int64_t size_here(const fs::path& path) {
  try {
    return InputFile(path).size();
  } catch (const IoError&) {
    return -1;
  }
}

}  // namespace

// A name that a node remembers may lead it to a file that is gone, or has another name now.
fs::path new_part(comm::ProcessGroup& world, const fs::path& output) {
  const std::string id = comm::broadcast_bytes(world, world.rank() == 0 ? make_checkpoint_id() : std::string());
  return part_path(output).string() + "." + id;
}

void remove_leftovers(const fs::path& output) {
  const fs::path part = part_path(output);
  ExportTeam(part, {}).tidy_up();
  for (const fs::path& leftover : {part, fs::path(part.string() + ".journal")}) remove_tree(leftover);
}

void lay_out_part(const fs::path& part, const ExportSource& source) {
  check_room(directory_of(part), source.layout);
  hdf5::make_file_with_hints(part, hdf5::stripe_hints(source.plan.tensor_bytes()));
  OutputFile file = OutputFile::open_existing(part);
  file.reserve(source.layout.files.front().bytes);
  for (const auto& [place, record] : source.layout.records({}))
    file.write_at(place.offset, record.data(), record.size());
  file.sync();
  file.close();
}

void await_part(const fs::path& path, std::int64_t bytes) {
  constexpr double kPatienceSeconds = 60;
  constexpr std::chrono::milliseconds kPause(20);
  const Timer waited;
  for (std::int64_t found = 0; (found = size_here(path)) != bytes; std::this_thread::sleep_for(kPause))
    SHOAL_CHECK(waited.seconds() < kPatienceSeconds, IoError,
                "{} {} here and has {} on rank 0: --output must be on a file system that all nodes share",
                path.string(), found < 0 ? "is missing" : fmt::format("has {} bytes", found), bytes);
}

}  // namespace shoal::checkpoint

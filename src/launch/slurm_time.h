// Times as Slurm writes and takes them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace shoal::launch {

// Seconds of "minutes", "minutes:seconds", "hours:minutes:seconds", "days-hours", "days-hours:minutes" and
// "days-hours:minutes:seconds", as sbatch --time takes and squeue prints them; nothing for "UNLIMITED", "infinite" and
// "-1". Anything else ("NOT_SET", "INVALID", "1:2:3:4") is an OptionError that quotes the text.
std::optional<std::int64_t> parse_slurm_time(std::string_view text);

}  // namespace shoal::launch

// Which ranks of a job write into one shard file.
#pragma once

#include <string>
#include <vector>

namespace shoal::checkpoint {

inline constexpr int kMostFiles = 512;  // that are made unasked

// For each rank the number of its file, from 0 on without a gap. `hosts[r]`: where rank r runs. With `files` 0, a file
// for each rank where all are on one host, else one for each host, or for as many neighbours as kMostFiles asks for;
// with another number so many, or as many as there are ranks. Ranks of one host share a file before those of two do,
// and hosts are neighbours in the order of their first ranks.
std::vector<int> file_of_ranks(const std::vector<std::string>& hosts, int files);

}  // namespace shoal::checkpoint

#include "checkpoint/file_groups.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>

namespace shoal::checkpoint {
namespace {

std::vector<int> numbers_of(const std::vector<std::string>& hosts) {
  std::map<std::string, int> number;
  std::vector<int> numbers;
  for (const std::string& host : hosts) numbers.push_back(number.try_emplace(host, number.size()).first->second);
  return numbers;
}

// Of `count` things in a row, the `index`-th goes to this of `files` files.
int share(std::size_t index, std::size_t count, int files) {
  return static_cast<int>(index * static_cast<std::size_t>(files) / count);
}

}  // namespace

std::vector<int> file_of_ranks(const std::vector<std::string>& hosts, int files) {
  const std::vector<int> host = numbers_of(hosts);
  const int ranks = static_cast<int>(hosts.size()), host_count = 1 + *std::max_element(host.begin(), host.end());
  if (files == 0) files = host_count == 1 ? ranks : std::min(host_count, kMostFiles);
  files = std::min(files, ranks);
  std::vector<int> file(hosts.size());
  if (files <= host_count) {
    for (std::size_t rank = 0; rank < file.size(); ++rank)
      file[rank] = share(static_cast<std::size_t>(host[rank]), static_cast<std::size_t>(host_count), files);
    return file;
  }
  std::vector<std::size_t> by_host(hosts.size());
  std::iota(by_host.begin(), by_host.end(), 0);
  std::stable_sort(by_host.begin(), by_host.end(), [&](std::size_t a, std::size_t b) { return host[a] < host[b]; });
  for (std::size_t place = 0; place < by_host.size(); ++place)
    file[by_host[place]] = share(place, by_host.size(), files);
  return file;
}

}  // namespace shoal::checkpoint

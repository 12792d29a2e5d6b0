// What must hold for any text: an OptionError or a list that keeps its promises. For libFuzzer, and for the driver in
// hostlist_fuzz_driver.cpp, which needs no clang.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "core/error.h"
#include "launch/hostlist.h"

namespace {

using namespace shoal::launch;

void require(bool holds, const char* what, std::string_view text) {
  if (holds) return;
  std::fprintf(stderr, "%s: '%.*s'\n", what, static_cast<int>(text.size()), text.data());
  std::abort();
}

void check_hostlist(std::string_view text) {
  const auto hosts = expand_hostlist(text);
  require(hosts.size() <= kMaxHosts, "too many hosts", text);
  for (const auto& host : hosts)
    require(!host.empty() && host.size() <= kMaxHostName && host.find_first_of("[], \t\r\n") == host.npos,
            "a name that is none", text);
  if (hosts.size() > 4096) return;  // the rest would only be slow
  require(expand_hostlist(compress_hostlist(hosts)) == hosts, "compression loses something", text);
}

void check_counts(std::string_view text) {
  const auto counts = expand_counts(text);
  require(!counts.empty() && counts.size() <= kMaxHosts, "too many counts, or none", text);
  for (const int count : counts) require(count >= 0, "a negative count", text);
}

template <typename Check>
void run(Check check, std::string_view text) {
  try {
    check(text);
  } catch (const shoal::OptionError& error) {
    require(std::string_view(error.what()).starts_with("character "), "an error without a place", text);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  run(check_hostlist, text);
  run(check_counts, text);
  return 0;
}

#include "checkpoint/manifest_origin.h"

#include <ctime>

#include "hdf5/call.h"

namespace shoal::checkpoint {
namespace {

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace

void note_origin(Manifest& manifest) {
  manifest.created = utc_now();
  manifest.libraries = {{"shoal", SHOAL_VERSION}, {"hdf5", hdf5::library_version()}};
}

}  // namespace shoal::checkpoint

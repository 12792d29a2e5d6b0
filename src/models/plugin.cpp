#include "models/plugin.h"

#include <dlfcn.h>

#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "core/check.h"

namespace shoal::models {
namespace {

constexpr std::string_view kOurTag = SHOAL_PLUGIN_TAG;
constexpr std::string_view kTagBegin = kOurTag.substr(0, kOurTag.find(':') + 2);

std::string contents_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  SHOAL_CHECK(std::filesystem::is_regular_file(path) && file, OptionError,
              "--model-plugin {}: there is no such file, or it cannot be read", path.string());
  return {std::istreambuf_iterator<char>(file), {}};
}

// The tag is looked for in the file's bytes: a shared object that was built for other libraries may fail, or worse, as
// soon as it is loaded.
void check_tag(const std::filesystem::path& path) {
  const std::string contents = contents_of(path);
  const auto begin = contents.find(kTagBegin);
  const auto end = begin == std::string::npos ? begin : contents.find(';', begin);
  SHOAL_CHECK(contents.starts_with("\x7f"
                                   "ELF") &&
                  end != std::string::npos,
              OptionError,
              "--model-plugin {}: not a plug-in of Shoal; build a shared object that contains SHOAL_MODEL_PLUGIN (see "
              "docs/plugins.md)",
              path.string());
  const std::string_view tag = std::string_view(contents).substr(begin, end - begin + 1);
  if (tag == kOurTag) return;
  const auto shown = [](std::string_view text) {
    return text.substr(kTagBegin.size(), text.size() - kTagBegin.size() - 1);
  };
  throw OptionError("--model-plugin {}: built for {}, but this program is {}; build it again against this installation",
                    path.string(), shown(tag), shown(kOurTag));
}

// Symbols are resolved at once: a missing one is an error here, not a crash in the middle of the training.
void* open_library(const std::filesystem::path& path) {
  void* const library = dlopen(std::filesystem::absolute(path).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = dlerror();
    throw OptionError(
        "--model-plugin {}: cannot be loaded: {}; link it to LibTorch and to nothing of Shoal but "
        "Shoal::shoal, and build it against this installation",
        path.string(), why != nullptr ? why : "no reason given");
  }
  return library;
}

}  // namespace

void load_plugin(const std::filesystem::path& path) {
  check_tag(path);
  void* const library = open_library(path);
  void* const entry = dlsym(library, "shoal_plugin_add_models");
  SHOAL_CHECK(
      entry != nullptr, OptionError,
      "--model-plugin {}: has no function shoal_plugin_add_models; write SHOAL_MODEL_PLUGIN in one of its files",
      path.string());
  try {
    reinterpret_cast<void (*)()>(entry)();
  } catch (const std::exception& error) {
    throw OptionError("--model-plugin {}: {}", path.string(), error.what());
  }
}

}  // namespace shoal::models

// Where Boost.Program_options puts a value: with the name that --help shows for it.
#pragma once

#include <boost/program_options/value_semantic.hpp>
#include <cstdint>
#include <filesystem>
#include <string>

#include "core/check.h"

namespace shoal::apps {

// Through a string: a path's own operator>> would stop at a space.
inline boost::program_options::value_semantic* path_value(std::filesystem::path& into) {
  return boost::program_options::value<std::string>()->value_name("PATH")->notifier(
      [&into](const std::string& text) { into = text; });
}

template <typename T>
boost::program_options::value_semantic* value(T& into, const char* name) {
  return boost::program_options::value<T>(&into)->value_name(name);
}

// Where 0 stands for "not given", it cannot be given.
inline boost::program_options::value_semantic* count_value(std::int64_t& into, const char* name, const char* option) {
  return boost::program_options::value<std::int64_t>(&into)->value_name(name)->notifier(
      [option](std::int64_t n) { SHOAL_CHECK(n >= 1, OptionError, "--{} must be at least 1, not {}", option, n); });
}

}  // namespace shoal::apps

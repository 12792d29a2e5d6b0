// The command line of one verb of shoal-ckpt.
#pragma once

#include <boost/program_options/options_description.hpp>
#include <boost/program_options/variables_map.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/verify.h"

namespace shoal::apps {

struct CkptUsage {
  std::string verb;
  std::string synopsis;  // what follows "shoal ckpt VERB "
  std::string summary;
  std::string example;  // a whole command line
  int paths = 1;        // that the verb takes
};

// Adds --help and the paths. Prints the help and returns false where it was asked for. OptionError, in one line, for
// everything that is not understood.
bool parse_ckpt_options(const CkptUsage& usage, const boost::program_options::options_description& options,
                        const std::vector<std::string>& arguments, boost::program_options::variables_map& values);

// The path given to the verb; both of a verb that takes two.
std::string path_of(const boost::program_options::variables_map& values);
std::vector<std::string> paths_of(const boost::program_options::variables_map& values);

// --workers N, and its value. OptionError below 1.
void add_workers_option(boost::program_options::options_description& options,
                        const char* what = "threads that read and compare",
                        int workers = checkpoint::default_workers());
int workers_of(const boost::program_options::variables_map& values);

// "5GB", "1.5GiB", "4096": bytes. OptionError that names the option.
std::int64_t bytes_from(const std::string& option, const std::string& text);

}  // namespace shoal::apps

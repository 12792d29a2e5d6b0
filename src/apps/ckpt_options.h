// The command line of one verb of shoal-ckpt.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/command_line.h"
#include "checkpoint/rename_rules.h"
#include "shard/dtype.h"

namespace shoal::apps {

struct CkptUsage {
  std::string verb;
  std::string synopsis;  // what follows "shoal ckpt VERB "
  std::string summary;
  std::string example;  // a whole command line
  int paths = 1;        // that the verb takes
};

// parse_verb(), and OptionError where a path is missing.
bool parse_ckpt_options(const CkptUsage& usage, const boost::program_options::options_description& options,
                        const std::vector<std::string>& arguments, boost::program_options::variables_map& values);

// The first path given to the verb.
std::string path_of(const boost::program_options::variables_map& values);

// --workers N, one a core and up to four unless `workers` says otherwise, and its value. OptionError below 1.
void add_workers_option(boost::program_options::options_description& options,
                        const char* what = "threads that read and compare", std::optional<int> workers = std::nullopt);
int workers_of(const boost::program_options::variables_map& values);

// --memory SIZE, 1GiB unless given, and its value in bytes.
void add_memory_option(boost::program_options::options_description& options);
std::int64_t memory_of(const boost::program_options::variables_map& values);

// --dtype TYPE, and the element type that it names; nothing where it is not given. OptionError for another word.
void add_dtype_option(boost::program_options::options_description& options, const char* what);
std::optional<DType> dtype_of(const boost::program_options::variables_map& values);

// --select GLOB and --rename OLD=NEW|FILE, each any number of times, and what was given.
void add_choice_options(boost::program_options::options_description& options);
std::vector<std::string> selected_by(const boost::program_options::variables_map& values);
checkpoint::RenameRules renamed_by(const boost::program_options::variables_map& values);

// "5GB", "1.5GiB", "4096": bytes. OptionError that names the option.
std::int64_t bytes_from(const std::string& option, const std::string& text);

}  // namespace shoal::apps

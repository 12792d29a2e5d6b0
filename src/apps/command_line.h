// What the command lines of all verbs have in common: how they are read, what --help shows, and what the driver is told
// for completion and documentation.
#pragma once

#include <boost/program_options/errors.hpp>
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/variables_map.hpp>
#include <string>
#include <vector>

namespace shoal::apps {

using OptionGroups = std::vector<boost::program_options::options_description>;

struct Verb {
  std::string name;      // "train", "ckpt list"
  std::string synopsis;  // the whole line: "shoal status RUN_DIR [options]"
  std::string summary;   // what it does, in lines of at most 120 letters
  std::string example;   // a whole command line
  std::string see;       // where to read more; "": nowhere
  int paths = 0;         // arguments without an option, at most; -1: any number
};

// What --help prints.
std::string help_text(const Verb& verb, const OptionGroups& groups);

// The argument by which the driver asks for a description: one line of JSON for each verb of the program.
inline constexpr const char* kDescribe = "--describe";
std::string description_of(const Verb& verb, const OptionGroups& groups);

// The library's errors, with the nearest option for one that is mistyped, or else where to look.
std::string explain(const boost::program_options::error& error,
                    const boost::program_options::options_description& known, const std::string& verb);

// Stores `arguments`: options are spelled out, for an abbreviation that is unique today would not be tomorrow. Up to
// `paths` others are in "path". Throws the library's errors, which explain() puts in words.
void store_arguments(const std::vector<std::string>& arguments,
                     const boost::program_options::options_description& options, int paths,
                     boost::program_options::variables_map& values);

// All of it for a verb whose options come from the command line alone; adds --help to the last group. Prints what
// --help or the driver asks for, and returns false. OptionError, in one line, for everything that is not understood.
bool parse_verb(const Verb& verb, OptionGroups groups, const std::vector<std::string>& arguments,
                boost::program_options::variables_map& values);

// Those without an option.
std::vector<std::string> paths_of(const boost::program_options::variables_map& values);

}  // namespace shoal::apps

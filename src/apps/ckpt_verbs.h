// The verbs of shoal-ckpt, one file each.
#pragma once

#include <string>
#include <vector>

#include "core/exit_code.h"

namespace shoal::apps {

// `arguments`: what follows the verb on the command line. Each prints its result and returns how the program ends;
// all throw OptionError, CheckpointError and IoError.
using CkptVerb = ExitCode (*)(const std::vector<std::string>& arguments);

ExitCode ckpt_list(const std::vector<std::string>& arguments);
ExitCode ckpt_inspect(const std::vector<std::string>& arguments);
ExitCode ckpt_verify(const std::vector<std::string>& arguments);
ExitCode ckpt_export(const std::vector<std::string>& arguments);
ExitCode ckpt_consolidate(const std::vector<std::string>& arguments);  // another name of export
ExitCode ckpt_import(const std::vector<std::string>& arguments);
ExitCode ckpt_diff(const std::vector<std::string>& arguments);
ExitCode ckpt_view(const std::vector<std::string>& arguments);
ExitCode ckpt_reshard(const std::vector<std::string>& arguments);
ExitCode ckpt_prune(const std::vector<std::string>& arguments);
ExitCode ckpt_repair(const std::vector<std::string>& arguments);

}  // namespace shoal::apps

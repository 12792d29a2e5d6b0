// What a config of another program says in the words of shoal train.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace shoal::configs {

// An option of shoal train, without dashes, with its value as on the command line; a switch has none.
struct Setting {
  std::string option, value;
  std::string key;        // of the config, as "fsdp_config.fsdp_offload_params"
  std::string only_with;  // an option without which this one means nothing; "": none
  bool operator==(const Setting&) const = default;
};

struct Translation {
  std::vector<Setting> settings;      // each option once
  std::vector<std::string> left_out;  // keys that mean nothing here
  std::vector<std::string> remarks;   // what is done otherwise than the config says, each a whole clause
  bool operator==(const Translation&) const = default;
};

// "shoal train --strategy full_shard --wrap class:GPT2Block"
std::string command_line(const std::vector<Setting>& settings);

// One line that says what of the config is left out or done otherwise; "" where there is nothing to say.
std::string warning_of(const Translation& translation);

}  // namespace shoal::configs

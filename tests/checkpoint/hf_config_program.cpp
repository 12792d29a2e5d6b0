// hf_config_program CHECKPOINT: prints its config.json.
#include <iostream>

#include "checkpoint/catalog.h"
#include "checkpoint/hf_config.h"

int main(int, char** argv) {
  const auto config =
      shoal::checkpoint::hf_config(shoal::checkpoint::open_checkpoint(shoal::checkpoint::resolve_checkpoint(argv[1])));
  std::cout << config.value_or("");
  return config ? 0 : 1;
}

// Which checkpoints of a directory stay.
#pragma once

#include <cstdint>
#include <vector>

#include "checkpoint/catalog.h"

namespace shoal::checkpoint {

struct Retention {
  // Not explicit: a number alone says how many.
  Retention(int newest, std::int64_t multiples_of = 0) : keep(newest), keep_every(multiples_of) {}

  int keep;                 // the newest so many; 1 at least
  std::int64_t keep_every;  // and for ever those whose step is a multiple of this; 0: none. Step 0 is none
};

bool is_for_ever(std::int64_t step, const Retention& retention);

enum class Standing {
  newest,     // stays: one of the newest
  multiple,   // stays for ever
  displaced,  // goes, whatever its step: there is a newer one of it
  older,      // goes
};
// `sound`: newest first, each complete (open_checkpoint). The first one always stays.
std::vector<Standing> standings(const std::vector<CatalogEntry>& sound, const Retention& retention);

// Those of `sound` that go, oldest last.
std::vector<CatalogEntry> superfluous(const std::vector<CatalogEntry>& sound, const Retention& retention);

}  // namespace shoal::checkpoint

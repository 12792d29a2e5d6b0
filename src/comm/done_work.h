// The Work of a collective that was over when its call returned.
#pragma once

#include "comm/process_group.h"

namespace shoal::comm {

class DoneWork final : public Work {
 public:
  void wait() override {}
};

}  // namespace shoal::comm

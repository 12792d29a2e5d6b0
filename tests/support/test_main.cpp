// The main program of tests of one process.
#include "support/exit_status.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  return shoal::testing::exit_status(RUN_ALL_TESTS());
}

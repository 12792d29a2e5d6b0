// The main program of tests that run on several ranks. Every rank runs every test; a failure on any rank fails the run.
// Rank 0 prints the usual lines, the others speak only where something failed.
#include <gtest/gtest.h>
#include <mpi.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "support/exit_status.h"

namespace {

using Clock = std::chrono::steady_clock;

// Long enough for a slow rank to reach the end of a test that it passes, short enough not to wait for CTest's limit.
constexpr std::chrono::seconds kPatience{30};

class FailurePrinter : public ::testing::EmptyTestEventListener {
 public:
  explicit FailurePrinter(int rank) : rank_(rank) {}

 private:
  void OnTestPartResult(const ::testing::TestPartResult& part) override {
    if (!part.failed()) return;
    std::fprintf(stderr, "[rank %d] %s:%d: %s\n", rank_, part.file_name() ? part.file_name() : "?", part.line_number(),
                 part.message());
  }

  int rank_;
};

// Holds the ranks together at the end of each test. A rank that left a test early, by an exception say, would otherwise
// meet the others' collectives of this test with its own of the next one; here it waits a while, then ends the run.
class EndOfTest : public ::testing::EmptyTestEventListener {
 public:
  EndOfTest(MPI_Comm comm, int rank) : comm_(comm), rank_(rank) {}

 private:
  void OnTestEnd(const ::testing::TestInfo& info) override {
    const bool failed = info.result()->Failed();
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Ibarrier(comm_, &request);
    const auto start = Clock::now();
    for (int done = 0; MPI_Test(&request, &done, MPI_STATUS_IGNORE), !done;) {
      if (failed && Clock::now() - start > kPatience) give_up(info);
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }

  [[noreturn]] void give_up(const ::testing::TestInfo& info) const {
    std::fprintf(stderr, "[rank %d] failed in %s.%s, and the other ranks do not come to its end: the run is aborted\n",
                 rank_, info.test_suite_name(), info.name());
    MPI_Abort(MPI_COMM_WORLD, 1);
    std::abort();
  }

  MPI_Comm comm_;
  int rank_;
};

// The same on every rank: failed where one failed, skipped where all skipped.
int agree(int status, MPI_Comm comm) {
  int failed = status == 1 ? 1 : 0, passed = status == 0 ? 1 : 0;
  MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, comm);
  MPI_Allreduce(MPI_IN_PLACE, &passed, 1, MPI_INT, MPI_MAX, comm);
  if (failed) return 1;
  return passed ? 0 : shoal::testing::kSkipped;
}

}  // namespace

int main(int argc, char** argv) {
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  ::testing::InitGoogleTest(&argc, argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);

  auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
  if (rank != 0) {
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailurePrinter(rank));
  }
  listeners.Append(new EndOfTest(comm, rank));

  const int status = agree(shoal::testing::exit_status(RUN_ALL_TESTS()), comm);
  MPI_Comm_free(&comm);
  MPI_Finalize();
  return status;
}

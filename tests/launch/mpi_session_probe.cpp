// mpi_session_probe HOW: what a program of Shoal does with MPI, in small.
//   placement  prints "rank size local_rank local_size" a rank
//   throw      the last rank throws while the others wait for it; main() aborts the job with the error's code
//   abort      aborts before MPI is started
#include <mpi.h>

#include <cstdio>
#include <string_view>

#include "core/error.h"
#include "launch/mpi_session.h"

namespace {

void use_mpi(int argc, char** argv, bool fails) {
  const shoal::launch::MpiSession session(&argc, &argv);
  const auto& here = session.placement();
  std::printf("%d %d %d %d\n", here.rank, here.size, here.local_rank, here.local_size);
  std::fflush(stdout);
  MPI_Barrier(MPI_COMM_WORLD);  // all lines are out before anything fails
  if (fails && here.rank == here.size - 1) throw shoal::CheckpointError("planned");
  MPI_Barrier(MPI_COMM_WORLD);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view how = argc > 1 ? argv[1] : "";
  try {
    if (how == "abort") throw shoal::DataError("planned");
    use_mpi(argc, argv, how == "throw");
    return 0;
  } catch (const shoal::Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    shoal::launch::abort_job(error.exit_code());
  }
}

#include "launch/mpi_session.h"

#include <mpi.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "core/check.h"
#include "core/host_name.h"
#include "core/logging.h"
#include "launch/launch_check.h"

extern char** environ;

namespace shoal::launch {
namespace {

#ifdef OMPI_MAJOR_VERSION
constexpr MpiLibrary kLibrary = MpiLibrary::open_mpi;
#else
constexpr MpiLibrary kLibrary = MpiLibrary::other;
#endif

std::string message_of(int code) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  return {text.data(), static_cast<std::size_t>(length)};
}

void check(int code, const char* call) {
  SHOAL_CHECK(code == MPI_SUCCESS, CommunicationError, "{} failed: {}", call, message_of(code));
}

// The first rank of each node counts those before it and tells its neighbours.
void number_nodes(MPI_Comm node, Placement& here) {
  const int is_first = here.local_rank == 0 ? 1 : 0;
  check(MPI_Allreduce(&is_first, &here.nodes, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD), "MPI_Allreduce");
  int before = 0;
  check(MPI_Exscan(&is_first, &before, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD), "MPI_Exscan");
  if (here.rank > 0) here.node = before;  // rank 0 has no rank before it, and MPI leaves `before` as it was
  check(MPI_Bcast(&here.node, 1, MPI_INT, 0, node), "MPI_Bcast");
}

Placement find_placement() {
  Placement here;
  check(MPI_Comm_rank(MPI_COMM_WORLD, &here.rank), "MPI_Comm_rank");
  check(MPI_Comm_size(MPI_COMM_WORLD, &here.size), "MPI_Comm_size");
  MPI_Comm node = MPI_COMM_NULL;
  check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, here.rank, MPI_INFO_NULL, &node),
        "MPI_Comm_split_type");
  check(MPI_Comm_rank(node, &here.local_rank), "MPI_Comm_rank");
  check(MPI_Comm_size(node, &here.local_size), "MPI_Comm_size");
  number_nodes(node, here);
  check(MPI_Comm_free(&node), "MPI_Comm_free");
  here.host = host_name();
  return here;
}

// Open MPI's MPI-IO writes parts of a file that lie close together as one, with what is between them as it was read
// just before. What another rank wrote there in the meantime is lost: github.com/open-mpi/ompi, pull requests 12756 and
// 12760. Read when the first file is opened; set here, where no other thread looks at the environment.
void turn_off_data_sieving() { setenv("OMPI_MCA_fbtl_posix_write_datasieving", "false", 0); }

bool mpi_is_running() noexcept {
  int started = 0, ended = 0;
  MPI_Initialized(&started);
  MPI_Finalized(&ended);
  return started && !ended;
}

}  // namespace

MpiSession::MpiSession(int* argc, char*** argv) : exceptions_at_start_(std::uncaught_exceptions()) {
  const SlurmEnvironment slurm = read_slurm_environment(read_environment(environ));  // MPI_Init will add to it
  check_before_mpi(slurm, kLibrary);
  if (const std::string warning = warning_before_mpi(slurm, kLibrary); !warning.empty()) log::warning("{}", warning);
  turn_off_data_sieving();
  int provided = MPI_THREAD_SINGLE;
  check(MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
  // The order of MPI's levels is that of their numbers.
  SHOAL_CHECK(provided >= MPI_THREAD_FUNNELED, CommunicationError,
              "this MPI gives thread level {}, but MPI_THREAD_FUNNELED ({}) is needed: use an MPI that is built with "
              "support for threads",
              provided, static_cast<int>(MPI_THREAD_FUNNELED));
  check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  placement_ = find_placement();
  log::set_rank(placement_.rank);
  check_world(slurm, placement_);
}

MpiSession::~MpiSession() {
  if (std::uncaught_exceptions() != exceptions_at_start_ || !mpi_is_running()) return;
  // The rank that ends first with a code that is not 0 has srun --kill-on-bad-exit send SIGTERM to the others. They are
  // about to end too, and 143 would hide their code.
  std::signal(SIGTERM, SIG_IGN);
  MPI_Finalize();
}

void abort_job(ExitCode code) noexcept {
  std::fflush(nullptr);
  if (mpi_is_running()) {
    int size = 1;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    // Alone there is nobody to hang on, and the launcher is spared its page about an aborted job.
    if (size > 1) MPI_Abort(MPI_COMM_WORLD, static_cast<int>(code));
    MPI_Finalize();
  }
  std::_Exit(static_cast<int>(code));
}

}  // namespace shoal::launch

#include "launch/mpi_session.h"

#include <mpi.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "core/check.h"
#include "core/host_name.h"
#include "core/logging.h"

namespace shoal::launch {
namespace {

std::string message_of(int code) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  return {text.data(), static_cast<std::size_t>(length)};
}

void check(int code, const char* call) {
  SHOAL_CHECK(code == MPI_SUCCESS, CommunicationError, "{} failed: {}", call, message_of(code));
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
  check(MPI_Comm_free(&node), "MPI_Comm_free");
  here.host = host_name();
  return here;
}

bool mpi_is_running() noexcept {
  int started = 0, ended = 0;
  MPI_Initialized(&started);
  MPI_Finalized(&ended);
  return started && !ended;
}

}  // namespace

MpiSession::MpiSession(int* argc, char*** argv) : exceptions_at_start_(std::uncaught_exceptions()) {
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
}

MpiSession::~MpiSession() {
  if (std::uncaught_exceptions() == exceptions_at_start_ && mpi_is_running()) MPI_Finalize();
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

// SHOAL_MPI(call) throws CommunicationError with MPI's own text where a call of MPI fails.
#pragma once

#include <mpi.h>

namespace shoal::comm {

void check_mpi(int code, const char* call);

}  // namespace shoal::comm

#define SHOAL_MPI(call) ::shoal::comm::check_mpi((call), #call)

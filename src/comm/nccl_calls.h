// Throwing wrappers, owners and translations for the calls of CUDA and NCCL.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include "comm/process_group.h"
#include "core/unique_handle.h"

namespace shoal::comm {

void check_cuda(cudaError_t code, const char* call);  // DeviceError
// CommunicationError with NCCL's own account of what happened.
void check_nccl(ncclResult_t code, const char* call);

struct StreamTraits {
  using Handle = cudaStream_t;
  static Handle invalid() noexcept { return nullptr; }
  static void close(Handle stream) noexcept { cudaStreamDestroy(stream); }
};
using UniqueStream = UniqueHandle<StreamTraits>;

struct EventTraits {
  using Handle = cudaEvent_t;
  static Handle invalid() noexcept { return nullptr; }
  static void close(Handle event) noexcept { cudaEventDestroy(event); }
};
using UniqueEvent = UniqueHandle<EventTraits>;

struct DeviceMemoryTraits {
  using Handle = void*;
  static Handle invalid() noexcept { return nullptr; }
  static void close(Handle memory) noexcept { cudaFree(memory); }
};
using UniqueDeviceMemory = UniqueHandle<DeviceMemoryTraits>;

UniqueStream make_urgent_stream();  // of the highest priority, on the current device
UniqueEvent make_event(bool timed);

// What NCCL calls a type that is added up; CommunicationError for int16, which it does not add.
ncclDataType_t reduction_type(DType dtype);
// The same for a type that is only moved, where its size is all that counts.
ncclDataType_t transfer_type(DType dtype);
ncclRedOp_t nccl_op(ReduceOp op);

}  // namespace shoal::comm

#define SHOAL_CUDA_CALL(call) ::shoal::comm::check_cuda((call), #call)
#define SHOAL_NCCL_CALL(call) ::shoal::comm::check_nccl((call), #call)

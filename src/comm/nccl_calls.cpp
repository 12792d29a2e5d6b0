#include "comm/nccl_calls.h"

#include "core/check.h"

namespace shoal::comm {

void check_cuda(cudaError_t code, const char* call) {
  SHOAL_CHECK(code == cudaSuccess, DeviceError, "CUDA: {} failed: {}", call, cudaGetErrorString(code));
}

void check_nccl(ncclResult_t code, const char* call) {
  SHOAL_CHECK(code == ncclSuccess, CommunicationError, "NCCL: {} failed: {} ({})", call, ncclGetErrorString(code),
              ncclGetLastError(nullptr));
}

UniqueStream make_urgent_stream() {
  int least = 0, greatest = 0;
  SHOAL_CUDA_CALL(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  cudaStream_t stream = nullptr;
  SHOAL_CUDA_CALL(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest));
  return UniqueStream(stream);
}

UniqueEvent make_event(bool timed) {
  cudaEvent_t event = nullptr;
  SHOAL_CUDA_CALL(cudaEventCreateWithFlags(&event, timed ? cudaEventDefault : cudaEventDisableTiming));
  return UniqueEvent(event);
}

ncclDataType_t reduction_type(DType dtype) {
  switch (dtype) {
    case DType::float64: return ncclFloat64;
    case DType::float32: return ncclFloat32;
    case DType::float16: return ncclFloat16;
    case DType::bfloat16: return ncclBfloat16;
    case DType::int64: return ncclInt64;
    case DType::int32: return ncclInt32;
    case DType::int8: return ncclInt8;
    case DType::uint8:
    case DType::boolean: return ncclUint8;
    case DType::float8_e4m3fn:
    case DType::float8_e5m2:
    case DType::int16: break;
  }
  throw CommunicationError("NCCL has no reduction of {}", name_of(dtype));
}

ncclDataType_t transfer_type(DType dtype) {
  if (is_float8(dtype)) return ncclUint8;
  return dtype == DType::int16 ? ncclFloat16 : reduction_type(dtype);
}

ncclRedOp_t nccl_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum: return ncclSum;
    case ReduceOp::max: return ncclMax;
    case ReduceOp::min: return ncclMin;
  }
  return ncclSum;
}

}  // namespace shoal::comm

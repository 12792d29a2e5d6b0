#include "kernels/matmul_problem.h"

#include <algorithm>

#include "core/error.h"

namespace shoal::kernels {
namespace {

cudaDataType_t cuda_type(DType dtype) {
  switch (dtype) {
    case DType::float32: return CUDA_R_32F;
    case DType::float16: return CUDA_R_16F;
    case DType::bfloat16: return CUDA_R_16BF;
    default: throw InternalError("cuBLASLt is not asked for products of {}", name_of(dtype));
  }
}

cublasLtEpilogue_t cublas_epilogue(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::none: return CUBLASLT_EPILOGUE_DEFAULT;
    case Epilogue::bias: return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::gelu_bias: return CUBLASLT_EPILOGUE_GELU_BIAS;
    case Epilogue::gelu_aux_bias: return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case Epilogue::dgelu: return CUBLASLT_EPILOGUE_DGELU;
    case Epilogue::dgelu_bias_grad: return CUBLASLT_EPILOGUE_DGELU_BGRAD;
    case Epilogue::row_sums_of_a: return CUBLASLT_EPILOGUE_BGRADB;
    case Epilogue::column_sums_of_b: return CUBLASLT_EPILOGUE_BGRADA;
  }
  throw InternalError("no such epilogue: {}", static_cast<int>(epilogue));
}

bool reads_or_writes_aux(Epilogue epilogue) {
  return epilogue == Epilogue::gelu_aux_bias || epilogue == Epilogue::dgelu || epilogue == Epilogue::dgelu_bias_grad;
}

// What may be counted on: kernels ask for 16 bytes, a few for more; 256 is what whole allocations have.
std::uint32_t alignment_of(const void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  if (address % 256 == 0) return 256;
  for (const std::uint32_t bytes : {16U, 8U, 4U}) {
    if (address % bytes == 0) return bytes;
  }
  return 2;
}

template <typename T>
void set(cublasLtMatmulDescOpaque_t& operation, cublasLtMatmulDescAttributes_t attribute, T value,
         const Matmul& product) {
  check_cublas(cublasLtMatmulDescSetAttribute(&operation, attribute, &value, sizeof value),
               "cublasLtMatmulDescSetAttribute", product);
}

template <typename T>
void set(cublasLtMatmulPreferenceOpaque_t& preference, cublasLtMatmulPreferenceAttributes_t attribute, T value,
         const Matmul& product) {
  check_cublas(cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof value),
               "cublasLtMatmulPreferenceSetAttribute", product);
}

// `rows` and `columns` are those of the row-major matrix as it is stored.
cublasLtMatrixLayoutOpaque_t layout_of(DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t stride,
                                       const Matmul& product) {
  cublasLtMatrixLayoutOpaque_t layout;
  check_cublas(cublasLtMatrixLayoutInit(&layout, cuda_type(dtype), static_cast<std::uint64_t>(columns),
                                        static_cast<std::uint64_t>(rows), stride),
               "cublasLtMatrixLayoutInit", product);
  return layout;
}

// Split sums are never kept in 16 bits, which would lose what fp32 accumulation is for.
std::uint32_t allowed_reductions(const Matmul& product) {
  if (product.deterministic) return CUBLASLT_REDUCTION_SCHEME_NONE;
  if (product.output == DType::float32)
    return CUBLASLT_REDUCTION_SCHEME_INPLACE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  return CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
}

const void* source_of(const Matmul& product) { return product.beta != 0 ? product.c : product.d; }

cublasLtMatmulPreferenceOpaque_t preference_of(const Matmul& product, std::size_t workspace_bytes) {
  cublasLtMatmulPreferenceOpaque_t preference;
  check_cublas(cublasLtMatmulPreferenceInit(&preference), "cublasLtMatmulPreferenceInit", product);
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{workspace_bytes}, product);
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, allowed_reductions(product), product);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(product.b.data), product);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(product.a.data), product);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(source_of(product)), product);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(product.d), product);
  return preference;
}

}  // namespace

void check_cuda(cudaError_t code, const char* call) {
  if (code != cudaSuccess) throw DeviceError("CUDA: {} failed: {}", call, cudaGetErrorString(code));
}

void check_cublas(cublasStatus_t code, const char* call, const Matmul& product) {
  if (code == CUBLAS_STATUS_SUCCESS) return;
  throw DeviceError("cuBLASLt: {} failed for a product of [{}, {}] and [{}, {}] in {}: {}", call, product.m, product.k,
                    product.k, product.n, name_of(product.input), cublasLtGetStatusString(code));
}

MatmulProblem::MatmulProblem(const Matmul& product) : product_(product) {
  const bool tf32 = product.allow_tf32 && product.input == DType::float32;
  check_cublas(
      cublasLtMatmulDescInit(&operation_, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F),
      "cublasLtMatmulDescInit", product);
  const MatmulInput &a = product.a, &b = product.b;
  set(operation_, CUBLASLT_MATMUL_DESC_TRANSA, b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N, product);
  set(operation_, CUBLASLT_MATMUL_DESC_TRANSB, a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N, product);
  const std::int64_t m = product.m, n = product.n, k = product.k;
  a_ = b.transposed ? layout_of(product.input, n, k, b.stride, product)
                    : layout_of(product.input, k, n, b.stride, product);
  b_ = a.transposed ? layout_of(product.input, k, m, a.stride, product)
                    : layout_of(product.input, m, k, a.stride, product);
  c_ = layout_of(product.output, m, n, product.beta != 0 ? product.c_stride : product.d_stride, product);
  d_ = layout_of(product.output, m, n, product.d_stride, product);
  set_epilogue();
}

void MatmulProblem::set_epilogue() {
  set(operation_, CUBLASLT_MATMUL_DESC_EPILOGUE, cublas_epilogue(product_.epilogue), product_);
  if (product_.epilogue != Epilogue::none && product_.epilogue != Epilogue::dgelu)
    set(operation_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, product_.vector, product_);
  if (!reads_or_writes_aux(product_.epilogue)) return;
  set(operation_, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, product_.aux, product_);
  set(operation_, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, product_.aux_stride, product_);
}

std::vector<cublasLtMatmulAlgo_t> MatmulProblem::algorithms(const MatmulQueue& queue, int most) {
  if (reads_or_writes_aux(product_.epilogue) && product_.aux_stride % 8 != 0) return {};
  cublasLtMatmulPreferenceOpaque_t preference = preference_of(product_, queue.workspace_bytes);
  std::vector<cublasLtMatmulHeuristicResult_t> found(static_cast<std::size_t>(most));
  int count = 0;
  const cublasStatus_t code = cublasLtMatmulAlgoGetHeuristic(queue.handle, &operation_, &a_, &b_, &c_, &d_, &preference,
                                                             most, found.data(), &count);
  // Epilogues that do not go with these strides or alignments are "invalid" to some versions.
  if (code == CUBLAS_STATUS_NOT_SUPPORTED || code == CUBLAS_STATUS_INVALID_VALUE) return {};
  check_cublas(code, "cublasLtMatmulAlgoGetHeuristic", product_);
  std::vector<cublasLtMatmulAlgo_t> algorithms;
  for (int i = 0; i < count; ++i) {
    const cublasLtMatmulHeuristicResult_t& result = found[static_cast<std::size_t>(i)];
    if (result.state == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= queue.workspace_bytes)
      algorithms.push_back(result.algo);
  }
  return algorithms;
}

cublasStatus_t MatmulProblem::run(const MatmulQueue& queue, const cublasLtMatmulAlgo_t& algorithm) {
  return cublasLtMatmul(queue.handle, &operation_, &product_.alpha, product_.b.data, &a_, product_.a.data, &b_,
                        &product_.beta, source_of(product_), &c_, product_.d, &d_, &algorithm, queue.workspace,
                        queue.workspace_bytes, queue.stream);
}

MatmulKey key_of(const Matmul& p, int device) {
  const std::int64_t kind = static_cast<std::int64_t>(p.input) | static_cast<std::int64_t>(p.output) << 8 |
                            static_cast<std::int64_t>(p.epilogue) << 16 | std::int64_t{p.a.transposed} << 24 |
                            std::int64_t{p.b.transposed} << 25 | std::int64_t{p.beta != 0} << 26 |
                            std::int64_t{p.c == p.d} << 27 | std::int64_t{p.allow_tf32} << 28 |
                            std::int64_t{p.deterministic} << 29 | std::int64_t{device} << 32;
  std::int64_t alignments = 0;
  for (const void* pointer : {p.a.data, p.b.data, source_of(p), static_cast<const void*>(p.d),
                              static_cast<const void*>(p.vector), static_cast<const void*>(p.aux)})
    alignments = alignments * 512 + alignment_of(pointer);
  const std::int64_t c_stride = p.beta != 0 ? p.c_stride : p.d_stride;
  return {p.m, p.n, p.k, p.a.stride, p.b.stride, c_stride, p.d_stride, p.aux_stride, kind, alignments};
}

}  // namespace shoal::kernels

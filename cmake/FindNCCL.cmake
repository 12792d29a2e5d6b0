# NCCL::nccl - the one NCCL of the process: the library that LibTorch itself loads comes first.
find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${LibTorch_NVIDIA_DIR}/nccl/include ${NCCL_ROOT} ENV NCCL_ROOT
          PATH_SUFFIXES include)
find_library(NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS ${LibTorch_NVIDIA_DIR}/nccl/lib ${NCCL_ROOT} ENV NCCL_ROOT
             PATH_SUFFIXES lib lib64)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(NCCL REQUIRED_VARS NCCL_LIBRARY NCCL_INCLUDE_DIR)
if(NCCL_FOUND AND NOT TARGET NCCL::nccl)
  add_library(NCCL::nccl UNKNOWN IMPORTED)
  set_target_properties(NCCL::nccl PROPERTIES IMPORTED_LOCATION ${NCCL_LIBRARY}
                        INTERFACE_INCLUDE_DIRECTORIES ${NCCL_INCLUDE_DIR})
endif()

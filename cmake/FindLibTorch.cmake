# LibTorch::cpu and, where the library is there, LibTorch::cuda.
#
# LibTorch's own TorchConfig.cmake insists on a CUDA toolkit when the build is a CUDA one and breaks on this CMake's
# CUDA dialect list, so its files are found directly. Looked at, in this order: LibTorch_ROOT, Torch_DIR
# (…/share/cmake/Torch), CMAKE_PREFIX_PATH, and the folder that scripts/setup.sh fills.
set(_shoal_cache "$ENV{SHOAL_CACHE}")
if(NOT _shoal_cache)
  if(DEFINED ENV{XDG_CACHE_HOME})
    set(_shoal_cache "$ENV{XDG_CACHE_HOME}/shoal")
  else()
    set(_shoal_cache "$ENV{HOME}/.cache/shoal")
  endif()
endif()
file(GLOB _shoal_wheels "${_shoal_cache}/torch-2.11.0/lib/python3*/site-packages/torch")
set(_torch_dir_hint "")
if(Torch_DIR)
  set(_torch_dir_hint "${Torch_DIR}/../../..")
elseif(DEFINED ENV{Torch_DIR})
  set(_torch_dir_hint "$ENV{Torch_DIR}/../../..")
endif()

find_path(LibTorch_INCLUDE_DIR ATen/ATen.h
          HINTS ${LibTorch_ROOT} ENV LibTorch_ROOT ${_torch_dir_hint}
          PATHS ${_shoal_wheels} PATH_SUFFIXES include)
if(LibTorch_INCLUDE_DIR)
  get_filename_component(LibTorch_ROOT_DIR "${LibTorch_INCLUDE_DIR}/.." REALPATH)
  find_library(LibTorch_CPU_LIBRARY torch_cpu PATHS ${LibTorch_ROOT_DIR}/lib NO_DEFAULT_PATH)
  find_library(LibTorch_C10_LIBRARY c10 PATHS ${LibTorch_ROOT_DIR}/lib NO_DEFAULT_PATH)
  file(STRINGS ${LibTorch_INCLUDE_DIR}/torch/headeronly/version.h _v REGEX "#define TORCH_VERSION ")
  if(NOT _v AND EXISTS ${LibTorch_INCLUDE_DIR}/torch/csrc/api/include/torch/version.h)
    file(STRINGS ${LibTorch_INCLUDE_DIR}/torch/csrc/api/include/torch/version.h _v REGEX "#define TORCH_VERSION ")
  endif()
  string(REGEX REPLACE ".*\"(.*)\".*" "\\1" LibTorch_VERSION "${_v}")
  get_filename_component(LibTorch_NVIDIA_DIR "${LibTorch_ROOT_DIR}/../nvidia" ABSOLUTE)
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch
  REQUIRED_VARS LibTorch_CPU_LIBRARY LibTorch_C10_LIBRARY LibTorch_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "run scripts/setup.sh, or set Torch_DIR to the share/cmake/Torch folder of a LibTorch >= 2.6")

if(LibTorch_FOUND AND NOT TARGET LibTorch::cpu)
  # The wheel's libraries carry no full RPATH to their neighbours of the nvidia-* wheels.
  file(GLOB _nvidia_libs ${LibTorch_NVIDIA_DIR}/*/lib)
  add_library(LibTorch::cpu INTERFACE IMPORTED)
  target_include_directories(LibTorch::cpu SYSTEM INTERFACE
    ${LibTorch_INCLUDE_DIR} ${LibTorch_INCLUDE_DIR}/torch/csrc/api/include)
  # --no-as-needed: operators register themselves by static initialisers, no symbol of ours pulls them in.
  target_link_options(LibTorch::cpu INTERFACE LINKER:-rpath,${LibTorch_ROOT_DIR}/lib)
  foreach(_dir IN LISTS _nvidia_libs)
    target_link_options(LibTorch::cpu INTERFACE LINKER:-rpath,${_dir} LINKER:-rpath-link,${_dir})
  endforeach()
  target_link_libraries(LibTorch::cpu INTERFACE
    -Wl,--push-state,--no-as-needed ${LibTorch_CPU_LIBRARY} ${LibTorch_C10_LIBRARY} -Wl,--pop-state)

  find_library(LibTorch_CUDA_LIBRARY torch_cuda PATHS ${LibTorch_ROOT_DIR}/lib NO_DEFAULT_PATH)
  find_library(LibTorch_C10_CUDA_LIBRARY c10_cuda PATHS ${LibTorch_ROOT_DIR}/lib NO_DEFAULT_PATH)
  # The wheel alone holds libtorch_cuda but not the cuDNN it needs: that comes with the nvidia-* wheels or the system.
  file(GLOB _cudnn ${LibTorch_NVIDIA_DIR}/cudnn/lib/libcudnn.so*)
  if(LibTorch_CUDA_LIBRARY AND (_cudnn OR NOT LibTorch_ROOT_DIR MATCHES "site-packages"))
    add_library(LibTorch::cuda INTERFACE IMPORTED)
    target_link_libraries(LibTorch::cuda INTERFACE LibTorch::cpu
      -Wl,--push-state,--no-as-needed ${LibTorch_CUDA_LIBRARY} ${LibTorch_C10_CUDA_LIBRARY} -Wl,--pop-state)
  endif()
endif()

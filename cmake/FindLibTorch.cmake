# LibTorch::cpu and, where its libraries are there, LibTorch::cuda; LibTorch_VERSION, LibTorch_ROOT_DIR, and
# SHOAL_TORCH_VENV, the folder that scripts/setup.sh fills.
#
# LibTorch's own TorchConfig.cmake insists on a CUDA toolkit when the build is a CUDA one and breaks on this CMake's
# CUDA dialect list, so its files are found directly. Looked at, in this order: LibTorch_ROOT, CMAKE_PREFIX_PATH,
# Torch_DIR (…/share/cmake/Torch), SHOAL_TORCH_VENV, the system's folders.
set(_shoal_cache "$ENV{SHOAL_CACHE}")
if(NOT _shoal_cache)
  set(_shoal_cache "$ENV{HOME}/.cache/shoal")
  if(NOT "$ENV{XDG_CACHE_HOME}" STREQUAL "")
    set(_shoal_cache "$ENV{XDG_CACHE_HOME}/shoal")
  endif()
endif()
set(SHOAL_TORCH_VENV "${_shoal_cache}/torch-2.11.0")
file(GLOB _shoal_wheels "${SHOAL_TORCH_VENV}/lib/python3*/site-packages/torch")

# Of PATH/share/cmake/Torch, which is what Torch_DIR holds, and of PATH/share/cmake, which is what
# torch.utils.cmake_prefix_path holds, PATH is wanted.
set(_torch_roots "")
foreach(_dir IN LISTS Torch_DIR ITEMS "$ENV{Torch_DIR}")
  if(_dir)
    list(APPEND _torch_roots "${_dir}/../../..")
  endif()
endforeach()
string(REPLACE ":" ";" _env_prefixes "$ENV{CMAKE_PREFIX_PATH}")
foreach(_dir IN LISTS CMAKE_PREFIX_PATH _env_prefixes)
  if(EXISTS "${_dir}/Torch/TorchConfig.cmake")
    list(APPEND _torch_roots "${_dir}/../..")
  endif()
endforeach()

# A remembered place is looked for again where it is gone (a cache that was cleared) or the user now names another.
set(_hints "${LibTorch_ROOT};$ENV{LibTorch_ROOT};${_torch_roots}")
if((LibTorch_INCLUDE_DIR AND NOT EXISTS "${LibTorch_INCLUDE_DIR}/ATen/ATen.h")
   OR NOT "${_hints}" STREQUAL "${SHOAL_TORCH_HINTS}")
  foreach(_name IN ITEMS INCLUDE_DIR CPU_LIBRARY C10_LIBRARY CUDA_LIBRARY C10_CUDA_LIBRARY)
    unset(LibTorch_${_name} CACHE)
  endforeach()
endif()
set(SHOAL_TORCH_HINTS "${_hints}" CACHE INTERNAL "Where LibTorch was looked for first")

find_path(LibTorch_INCLUDE_DIR ATen/ATen.h HINTS ${_torch_roots} ${_shoal_wheels} PATH_SUFFIXES include)
if(LibTorch_INCLUDE_DIR)
  get_filename_component(LibTorch_ROOT_DIR "${LibTorch_INCLUDE_DIR}/.." REALPATH)
  get_filename_component(LibTorch_NVIDIA_DIR "${LibTorch_ROOT_DIR}/../nvidia" ABSOLUTE)
  find_library(LibTorch_CPU_LIBRARY torch_cpu PATHS ${LibTorch_ROOT_DIR}/lib NO_DEFAULT_PATH)
  find_library(LibTorch_C10_LIBRARY c10 PATHS ${LibTorch_ROOT_DIR}/lib NO_DEFAULT_PATH)
  find_library(LibTorch_CUDA_LIBRARY torch_cuda PATHS ${LibTorch_ROOT_DIR}/lib NO_DEFAULT_PATH)
  find_library(LibTorch_C10_CUDA_LIBRARY c10_cuda PATHS ${LibTorch_ROOT_DIR}/lib NO_DEFAULT_PATH)

  set(LibTorch_VERSION "")
  foreach(_header IN ITEMS torch/headeronly/version.h torch/csrc/api/include/torch/version.h)
    if(NOT LibTorch_VERSION AND EXISTS "${LibTorch_INCLUDE_DIR}/${_header}")
      file(STRINGS "${LibTorch_INCLUDE_DIR}/${_header}" _lines REGEX "#define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
      string(REGEX MATCHALL "[0-9]+" _numbers "${_lines}")
      list(JOIN _numbers "." LibTorch_VERSION)
    endif()
  endforeach()
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch
  REQUIRED_VARS LibTorch_CPU_LIBRARY LibTorch_C10_LIBRARY LibTorch_INCLUDE_DIR
  VERSION_VAR LibTorch_VERSION
  REASON_FAILURE_MESSAGE "run scripts/setup.sh, or set Torch_DIR to the share/cmake/Torch folder of a LibTorch")

if(LibTorch_FOUND AND NOT TARGET LibTorch::cpu)
  function(_shoal_import_library name file)
    add_library(${name} SHARED IMPORTED GLOBAL)
    set_target_properties(${name} PROPERTIES IMPORTED_LOCATION "${file}" IMPORTED_NO_SONAME TRUE)
  endfunction()
  _shoal_import_library(LibTorch::c10 "${LibTorch_C10_LIBRARY}")
  _shoal_import_library(LibTorch::cpu "${LibTorch_CPU_LIBRARY}")
  # -idirafter: LibTorch brings headers of other projects along (fmt, protobuf, pybind11) without their libraries. They
  # must not hide the ones that we link.
  target_compile_options(LibTorch::cpu INTERFACE
    "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-idirafter ${LibTorch_INCLUDE_DIR}>"
    "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-idirafter ${LibTorch_INCLUDE_DIR}/torch/csrc/api/include>")
  target_link_libraries(LibTorch::cpu INTERFACE LibTorch::c10)

  # The wheel alone holds libtorch_cuda but not the cuDNN it needs: that comes with the nvidia-* wheels or the system.
  file(GLOB _cudnn ${LibTorch_NVIDIA_DIR}/cudnn/lib/libcudnn.so*)
  if(LibTorch_CUDA_LIBRARY AND (_cudnn OR NOT LibTorch_ROOT_DIR MATCHES "site-packages"))
    # Operators register themselves by static initialisers: no symbol of ours pulls these libraries in.
    set(CMAKE_LINK_LIBRARY_USING_shoal_always_needed
        "LINKER:--push-state,--no-as-needed" "<LINK_ITEM>" "LINKER:--pop-state")
    set(CMAKE_LINK_LIBRARY_USING_shoal_always_needed_SUPPORTED TRUE)
    _shoal_import_library(LibTorch::torch_cuda "${LibTorch_CUDA_LIBRARY}")
    _shoal_import_library(LibTorch::c10_cuda "${LibTorch_C10_CUDA_LIBRARY}")
    add_library(LibTorch::cuda INTERFACE IMPORTED GLOBAL)
    target_link_libraries(LibTorch::cuda INTERFACE
      LibTorch::cpu "$<LINK_LIBRARY:shoal_always_needed,LibTorch::torch_cuda,LibTorch::c10_cuda>")
  endif()
endif()

# Language level, warnings, sanitizers and the compiler cache: one place for what every target shares.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

# A precompiled header holds the time of its making; without these allowances ccache would never hit. With its base folder,
# paths in this clone are the same as in another, and one build folder finds what another compiled.
find_program(SHOAL_CCACHE ccache)
if(SHOAL_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(_ccache_settings CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env ${_ccache_settings} ${SHOAL_CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()

find_program(SHOAL_MOLD mold)
if(SHOAL_MOLD)
  add_link_options($<$<LINK_LANGUAGE:CXX>:-fuse-ld=mold>)
endif()

# Installed programs find LibTorch and MPI where they were linked; a program needs only the libraries that it uses
# (HDF5's list names libcurl and libcrypto, say).
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)
add_link_options(LINKER:--as-needed)

# -Wno-missing-field-initializers: a designated initialiser leaves out what keeps its default; that is its purpose.
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wall> $<$<COMPILE_LANGUAGE:CXX>:-Wextra>
                    $<$<COMPILE_LANGUAGE:CXX>:-Wshadow> $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor>
                    $<$<COMPILE_LANGUAGE:CXX>:-Wno-missing-field-initializers>)
if(SHOAL_WARNINGS_AS_ERRORS)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()

if(SHOAL_SANITIZE)
  # LibTorch is built without type information for -fsanitize=vptr to find.
  # GCC sees uninitialised reads in its own <regex> when the sanitizers' checks are woven in; the release build looks too.
  add_compile_options(-fsanitize=${SHOAL_SANITIZE} -fno-omit-frame-pointer -g1 -Wno-maybe-uninitialized)
  add_link_options(-fsanitize=${SHOAL_SANITIZE})
  if(SHOAL_SANITIZE MATCHES undefined)
    add_compile_options(-fno-sanitize=vptr -fno-sanitize-recover=undefined)
    add_link_options(-fno-sanitize=vptr)
  endif()
endif()

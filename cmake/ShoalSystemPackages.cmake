# What the system, a module or Spack must bring: everything but LibTorch. All that is missing is reported at once, with
# the names to install it by. scripts/setup.sh reads the report from the small project in cmake/probe.
set(SHOAL_MISSING "")  # entries "what|Debian package|module|Spack package"

# shoal_require(NAME "debian" "module" "spack" [find_package arguments…])
macro(shoal_require name debian module spack)
  find_package(${name} ${ARGN} QUIET)
  if(NOT ${name}_FOUND)
    list(APPEND SHOAL_MISSING "${name}|${debian}|${module}|${spack}")
  endif()
endmacro()

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
set(Boost_USE_STATIC_LIBS ON)
shoal_require(MPI "libopenmpi-dev openmpi-bin" openmpi openmpi COMPONENTS C)
shoal_require(HDF5 libhdf5-dev hdf5 hdf5~mpi COMPONENTS C)
shoal_require(Boost libboost-program-options-dev boost boost+program_options COMPONENTS program_options)
shoal_require(fmt libfmt-dev fmt fmt)
shoal_require(spdlog libspdlog-dev spdlog spdlog)
shoal_require(nlohmann_json nlohmann-json3-dev nlohmann_json nlohmann-json 3.10)
shoal_require(yaml-cpp libyaml-cpp-dev yaml-cpp yaml-cpp)
shoal_require(ZLIB zlib1g-dev zlib zlib)
shoal_require(ISAL libisal-dev isa-l isa-l)
shoal_require(HWLOC libhwloc-dev hwloc hwloc)
if(SHOAL_TESTS)
  shoal_require(GTest libgtest-dev googletest googletest)
endif()

if(SHOAL_MISSING)
  list(JOIN SHOAL_MISSING "\n  " _lines)
  message(FATAL_ERROR "missing packages (what|Debian package|module|Spack package):\n  ${_lines}\n"
                      "scripts/setup.sh installs them where it may; otherwise it names the commands")
endif()

# What makes an installation at home on a cluster: job scripts, sandbox, modulefiles. Installed as the component "site":
#   PREFIX/share/shoal/slurm/…
#   PREFIX/share/shoal/modulefiles/tcl/shoal/VERSION, …/lua/shoal/VERSION.lua
set(SHOAL_MODULE_REQUIRES "" CACHE STRING "Modules that Shoal's modulefile asks for, e.g. openmpi/4.1.6;hdf5")
set(SHOAL_SLURM_DIR ${CMAKE_INSTALL_DATADIR}/shoal/slurm)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/slurm/ DESTINATION ${SHOAL_SLURM_DIR} USE_SOURCE_PERMISSIONS COMPONENT site
        PATTERN ".shellcheckrc" EXCLUDE)
# The programs of the build folder find them in the same place, relative to themselves.
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/share/shoal)
file(CREATE_LINK ${PROJECT_SOURCE_DIR}/slurm ${PROJECT_BINARY_DIR}/share/shoal/slurm SYMBOLIC)

# The libraries with their versions, in a line for people.
function(_shoal_built_with result)
  execute_process(COMMAND ${MPIEXEC_EXECUTABLE} --version OUTPUT_VARIABLE _mpi ERROR_QUIET)
  string(REGEX MATCH "[^\n]*" _mpi "${_mpi}")
  string(REGEX REPLACE "^(mpirun|mpiexec)[^A-Za-z0-9]*|[()]" "" _mpi "${_mpi}")
  string(REPLACE "OpenRTE" "Open MPI" _mpi "${_mpi}")
  set(_parts "LibTorch ${LibTorch_VERSION}" "MPI: ${_mpi}" "HDF5 ${HDF5_VERSION}")
  if(SHOAL_WITH_CUDA)
    file(STRINGS ${NCCL_INCLUDE_DIR}/nccl.h _nccl REGEX "#define NCCL_(MAJOR|MINOR|PATCH) ")
    string(REGEX MATCHALL "[0-9]+" _nccl "${_nccl}")
    list(JOIN _nccl "." _nccl)
    list(APPEND _parts "CUDA ${CUDAToolkit_VERSION}" "NCCL ${_nccl}")
  endif()
  list(JOIN _parts ", " _text)
  set(${result} "${_text}" PARENT_SCOPE)
endfunction()

_shoal_built_with(SHOAL_BUILT_WITH)
set(SHOAL_TCL_REQUIRES "")
set(SHOAL_LUA_REQUIRES "")
foreach(_module IN LISTS SHOAL_MODULE_REQUIRES)
  string(APPEND SHOAL_TCL_REQUIRES "prereq ${_module}\n")
  string(APPEND SHOAL_LUA_REQUIRES "depends_on(\"${_module}\")\n")
endforeach()

# The prefix is known only when it is installed: `cmake --install --prefix` may choose another.
set(PREFIX "@PREFIX@")
foreach(_language IN ITEMS tcl lua)
  configure_file(${PROJECT_SOURCE_DIR}/modules/shoal.${_language}.in
                 ${PROJECT_BINARY_DIR}/modulefiles/shoal.${_language}.in @ONLY)
endforeach()
install(CODE "
  set(PREFIX \"\${CMAKE_INSTALL_PREFIX}\")
  set(_folder \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}/shoal/modulefiles\")
  configure_file(\"${PROJECT_BINARY_DIR}/modulefiles/shoal.tcl.in\" \"\${_folder}/tcl/shoal/${PROJECT_VERSION}\" @ONLY)
  configure_file(\"${PROJECT_BINARY_DIR}/modulefiles/shoal.lua.in\" \"\${_folder}/lua/shoal/${PROJECT_VERSION}.lua\" @ONLY)
  message(STATUS \"Installing: \${_folder}\")" COMPONENT site)

# How tests are registered. GoogleTest is linked, the include roots are src/ and tests/.
#
#   shoal_add_test(NAME SOURCES a.cpp … LINK libs… [LABELS unit] [TIMEOUT s] [ARGS …])
#       one program, one test. LABELS is "unit" unless given.
#   shoal_add_mpi_test(NAME SOURCES a.cpp … LINK libs… RANKS 1 2 3 4 [LABELS mpi] [TIMEOUT s])
#       one program, one test for each rank count, named NAME.n1, NAME.n2, …; the label is "mpi" unless given.
#   shoal_add_smoke_test(NAME COMMAND … [LABELS smoke] [TIMEOUT s])
#       any command; it passes where it exits with 0.
#
# The target unit_tests builds what the tests of the label "unit" run.
#
# A test whose every case was skipped (no GPU, say) exits with 77 and is shown as skipped. TIMEOUT is in seconds, 120
# unless given; the sanitizer presets multiply it by five.
add_custom_target(unit_tests)
add_library(shoal_test_main STATIC ${PROJECT_SOURCE_DIR}/tests/support/test_main.cpp)
target_include_directories(shoal_test_main PUBLIC ${PROJECT_SOURCE_DIR}/tests)
target_link_libraries(shoal_test_main PUBLIC GTest::gtest)

add_library(shoal_mpi_test_main STATIC ${PROJECT_SOURCE_DIR}/tests/support/mpi_main.cpp)
target_include_directories(shoal_mpi_test_main PUBLIC ${PROJECT_SOURCE_DIR}/tests)
target_link_libraries(shoal_mpi_test_main PUBLIC GTest::gtest shoal_mpi)

# A rank that waits must leave its core to the others, since the ranks outnumber the cores of most machines that run
# the tests. Other launchers than Open MPI's know none of these options and need none.
execute_process(COMMAND ${MPIEXEC_EXECUTABLE} --version OUTPUT_VARIABLE _shoal_launcher ERROR_QUIET)
set(SHOAL_TEST_ENVIRONMENT OMP_NUM_THREADS=1)
set(SHOAL_MPIEXEC ${MPIEXEC_EXECUTABLE})
if(_shoal_launcher MATCHES "Open MPI|OpenRTE|open-mpi")
  list(APPEND SHOAL_MPIEXEC --oversubscribe --bind-to none)
  list(APPEND SHOAL_TEST_ENVIRONMENT
       OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
       OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_rmaps_base_oversubscribe=1
       # Copies from process to process need a capability that containers lack; without it Open MPI warns at each start.
       OMPI_MCA_btl_vader_single_copy_mechanism=none)
endif()
if(SHOAL_SANITIZE MATCHES address)
  # MPI and LibTorch keep memory until the process ends; that is theirs, and it hides nothing of ours that matters.
  list(APPEND SHOAL_TEST_ENVIRONMENT ASAN_OPTIONS=detect_leaks=0:detect_odr_violation=0)
endif()

function(_shoal_test_properties name labels timeout)
  if(NOT timeout)
    set(timeout 120)
  endif()
  if(SHOAL_SANITIZE)
    math(EXPR timeout "5 * ${timeout}")
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${labels}" TIMEOUT ${timeout} SKIP_RETURN_CODE 77
                       ENVIRONMENT "${SHOAL_TEST_ENVIRONMENT}")
endfunction()

function(_shoal_test_program name)
  cmake_parse_arguments(A "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${A_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE ${A_LINK})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
endfunction()

function(shoal_add_test name)
  cmake_parse_arguments(A "" "TIMEOUT" "SOURCES;LINK;LABELS;ARGS" ${ARGN})
  if(NOT A_LABELS)
    set(A_LABELS unit)
  endif()
  _shoal_test_program(${name} SOURCES ${A_SOURCES} LINK ${A_LINK} shoal_test_main)
  add_test(NAME ${name} COMMAND ${name} ${A_ARGS})
  if(unit IN_LIST A_LABELS)
    add_dependencies(unit_tests ${name})
  endif()
  _shoal_test_properties(${name} "${A_LABELS}" "${A_TIMEOUT}")
endfunction()

function(shoal_add_mpi_test name)
  cmake_parse_arguments(A "" "TIMEOUT" "SOURCES;LINK;LABELS;RANKS" ${ARGN})
  if(NOT A_RANKS)
    message(FATAL_ERROR "shoal_add_mpi_test(${name}): give RANKS, e.g. RANKS 1 2 3 4")
  endif()
  if(NOT A_LABELS)
    set(A_LABELS mpi)
  endif()
  _shoal_test_program(${name} SOURCES ${A_SOURCES} LINK ${A_LINK} shoal_mpi_test_main)
  foreach(ranks IN LISTS A_RANKS)
    add_test(NAME ${name}.n${ranks}
             COMMAND ${SHOAL_MPIEXEC} ${MPIEXEC_NUMPROC_FLAG} ${ranks} $<TARGET_FILE:${name}>)
    _shoal_test_properties(${name}.n${ranks} "${A_LABELS}" "${A_TIMEOUT}")
    set_tests_properties(${name}.n${ranks} PROPERTIES PROCESSORS ${ranks})
  endforeach()
endfunction()

function(shoal_add_smoke_test name)
  cmake_parse_arguments(A "" "TIMEOUT" "COMMAND;LABELS" ${ARGN})
  if(NOT A_LABELS)
    set(A_LABELS smoke)
  endif()
  add_test(NAME ${name} COMMAND ${A_COMMAND})
  if(unit IN_LIST A_LABELS)
    string(REGEX MATCHALL "[A-Za-z0-9_-]+" _words "${A_COMMAND}")  # with those of $<TARGET_FILE:…>
    foreach(_word IN LISTS _words)
      if(TARGET ${_word})
        add_dependencies(unit_tests ${_word})
      endif()
    endforeach()
  endif()
  _shoal_test_properties(${name} "${A_LABELS}" "${A_TIMEOUT}")
endfunction()

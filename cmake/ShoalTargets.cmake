# shoal_add_library(NAME SOURCES … LINK … PRIVATE_LINK …)   one layer of src/: a static library shoal_NAME, include root src/
# shoal_add_program(NAME SOURCES … LINK …)   a program for users, in bin/; the target "programs" makes them all
# shoal_use_torch_pch(TARGET)                precompiled torch/torch.h, for targets that need the whole of it
function(shoal_add_library name)
  cmake_parse_arguments(A "" "" "SOURCES;LINK;PRIVATE_LINK" ${ARGN})
  add_library(shoal_${name} STATIC ${A_SOURCES})
  target_include_directories(shoal_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(shoal_${name} PUBLIC ${A_LINK} PRIVATE ${A_PRIVATE_LINK})
endfunction()

function(shoal_add_program name)
  cmake_parse_arguments(A "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${A_SOURCES})
  target_link_libraries(${name} PRIVATE ${A_LINK})
  install(TARGETS ${name} RUNTIME DESTINATION bin)
  if(NOT TARGET programs)
    add_custom_target(programs)
  endif()
  add_dependencies(programs ${name})
endfunction()

function(shoal_use_torch_pch target)
  if(NOT TARGET shoal_torch_pch)
    file(WRITE ${PROJECT_BINARY_DIR}/shoal_torch_pch.cpp.in "// makes the precompiled header\n")
    configure_file(${PROJECT_BINARY_DIR}/shoal_torch_pch.cpp.in ${PROJECT_BINARY_DIR}/shoal_torch_pch.cpp COPYONLY)
    add_library(shoal_torch_pch OBJECT ${PROJECT_BINARY_DIR}/shoal_torch_pch.cpp)
    target_link_libraries(shoal_torch_pch PRIVATE LibTorch::cpu shoal_core)
    target_precompile_headers(shoal_torch_pch PRIVATE <torch/torch.h>)
    target_compile_options(shoal_torch_pch PRIVATE -fpch-preprocess)
  endif()
  # -fPIC: programs would be compiled with -fPIE, for which the header was not made.
  target_compile_options(${target} PRIVATE -fpch-preprocess -fPIC)
  target_precompile_headers(${target} REUSE_FROM shoal_torch_pch)
endfunction()

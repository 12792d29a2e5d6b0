# What users compile plug-ins against: headers, find_package(Shoal), and the script that makes models from Python.
# Programs install themselves (shoal_add_program).
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(SHOAL_INCLUDE_DIR ${CMAKE_INSTALL_INCLUDEDIR}/shoal)
set(SHOAL_PROGRAM_DIR ${CMAKE_INSTALL_BINDIR})
set(_package ${CMAKE_INSTALL_LIBDIR}/cmake/Shoal)

foreach(_layer IN ITEMS core shard data models)  # a plug-in's layers and what their headers include
  file(GLOB _headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${_layer}/*.h)
  install(FILES ${_headers} DESTINATION ${SHOAL_INCLUDE_DIR}/${_layer} COMPONENT development)
endforeach()

configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/ShoalConfig.cmake.in ${PROJECT_BINARY_DIR}/ShoalConfig.cmake
  INSTALL_DESTINATION ${_package} PATH_VARS SHOAL_INCLUDE_DIR SHOAL_PROGRAM_DIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/ShoalConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/ShoalConfig.cmake ${PROJECT_BINARY_DIR}/ShoalConfigVersion.cmake
              ${PROJECT_SOURCE_DIR}/cmake/FindLibTorch.cmake
        DESTINATION ${_package} COMPONENT development)
install(PROGRAMS ${PROJECT_SOURCE_DIR}/scripts/export_model.py DESTINATION ${CMAKE_INSTALL_DATADIR}/shoal
        COMPONENT development)
include(ShoalSlurm)

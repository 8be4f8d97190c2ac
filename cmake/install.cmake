# Installs the library, its public headers and a package config, so that find_package(cairn) gives cairn::cairn.
include(CMakePackageConfigHelpers)
install(TARGETS cairn EXPORT cairn-targets)
install(FILES ${CAIRN_PUBLIC_HEADERS} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/cairn)
install(EXPORT cairn-targets NAMESPACE cairn:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/cairn)
if(TARGET cairn_mpi)  # find_package(cairn COMPONENTS mpi)
  install(TARGETS cairn_mpi EXPORT cairn-mpi-targets)
  install(EXPORT cairn-mpi-targets NAMESPACE cairn:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/cairn)
endif()
configure_package_config_file(cmake/cairn-config.cmake.in cairn-config.cmake INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/cairn)
write_basic_package_version_file(cairn-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/cairn-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/cairn-config-version.cmake
              cmake/FindBlosc.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/cairn)

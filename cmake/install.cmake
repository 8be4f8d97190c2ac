# Installs the libraries, the public headers, and what finds them: a CMake package and cairn.pc.
#
#   find_package(cairn)                      cairn::cairn, the shared library (or the static one,
#                                            where only that was built)
#   find_package(cairn COMPONENTS static)    also cairn::cairn_static, which needs the libraries
#                                            that Cairn stands on
#   find_package(cairn COMPONENTS mpi)       also cairn::mpi
include(CMakePackageConfigHelpers)
set(CAIRN_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/cairn)
install(FILES ${CAIRN_PUBLIC_HEADERS} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/cairn)
install(TARGETS cairn EXPORT cairn-static-targets)
install(EXPORT cairn-static-targets NAMESPACE cairn:: DESTINATION ${CAIRN_CMAKE_DIR})
if(TARGET cairn_shared)
  install(TARGETS cairn_shared EXPORT cairn-targets)
  if(TARGET cairn_mpi_shared)
    install(TARGETS cairn_mpi_shared EXPORT cairn-mpi-targets)
    install(EXPORT cairn-mpi-targets NAMESPACE cairn:: DESTINATION ${CAIRN_CMAKE_DIR})
  endif()
  install(EXPORT cairn-targets NAMESPACE cairn:: DESTINATION ${CAIRN_CMAKE_DIR})
  # Relative, so that the tree can be installed to, or moved to, any prefix.
  file(RELATIVE_PATH CAIRN_PC_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
  configure_file(cmake/cairn.pc.in cairn.pc @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/cairn.pc
          DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()
configure_package_config_file(cmake/cairn-config.cmake.in cairn-config.cmake
                              INSTALL_DESTINATION ${CAIRN_CMAKE_DIR})
write_basic_package_version_file(cairn-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/cairn-config.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/cairn-config-version.cmake cmake/FindBlosc.cmake
        DESTINATION ${CAIRN_CMAKE_DIR})

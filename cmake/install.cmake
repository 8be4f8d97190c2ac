# Installs the command with its pages, the libraries, the public headers, and what finds them: a
# CMake package and cairn.pc.
#
#   find_package(cairn)                      cairn::cairn, the shared library (or the static one,
#                                            where only that was built)
#   find_package(cairn COMPONENTS static)    also cairn::cairn_static, which needs the libraries
#                                            that Cairn stands on
#   find_package(cairn COMPONENTS mpi)       also cairn::mpi
#
# Each part is a component, and a Debian package (cmake/package.cmake): command, library, mpi, dev.
# The static program with the same pages is the component static, which only its name installs.
include(CMakePackageConfigHelpers)
set(CAIRN_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/cairn)
set(CAIRN_INSTALLED ${CAIRN_LIBRARY_TARGETS})  # what the target cairn_installed builds
function(cairn_install_pages)  # takes what install() takes at its end
  install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} ${ARGN})
  if(TARGET cairn_pages)
    set(pages ${PROJECT_BINARY_DIR}/pages)
    install(DIRECTORY ${pages}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 ${ARGN})
    install(DIRECTORY ${pages}/bash/ DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions ${ARGN})
    install(DIRECTORY ${pages}/zsh/ DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions ${ARGN})
    install(DIRECTORY ${pages}/fish/ DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d ${ARGN})
  endif()
  install(DIRECTORY cli/schemas/ DESTINATION ${CMAKE_INSTALL_DATADIR}/cairn/schemas ${ARGN}
          FILES_MATCHING PATTERN "*.json")
endfunction()

cairn_install_pages(COMPONENT command)
if(CAIRN_BUILD_CLI)
  install(TARGETS cairn_cli COMPONENT command)
  list(APPEND CAIRN_INSTALLED cairn_cli)
endif()
if(TARGET cairn_pages)
  list(APPEND CAIRN_INSTALLED cairn_pages)
endif()
if(TARGET cairn_static_cli)
  install(TARGETS cairn_static_cli COMPONENT static EXCLUDE_FROM_ALL)
  cairn_install_pages(COMPONENT static EXCLUDE_FROM_ALL)
  add_custom_target(cairn_static DEPENDS cairn_static_cli)
  if(TARGET cairn_pages)
    add_dependencies(cairn_static cairn_pages)
  endif()
endif()
if(TARGET cairn_mpi_module)
  install(TARGETS cairn_mpi_module LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/cairn COMPONENT mpi)
  list(APPEND CAIRN_INSTALLED cairn_mpi_module)
endif()

install(DIRECTORY include/cairn DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev FILES_MATCHING PATTERN "*.h")
install(TARGETS cairn EXPORT cairn-static-targets ARCHIVE COMPONENT dev)
install(EXPORT cairn-static-targets NAMESPACE cairn:: DESTINATION ${CAIRN_CMAKE_DIR} COMPONENT dev)
if(TARGET cairn_shared)
  install(TARGETS cairn_shared EXPORT cairn-targets LIBRARY COMPONENT library NAMELINK_COMPONENT dev)
  if(TARGET cairn_mpi_shared)
    install(TARGETS cairn_mpi_shared EXPORT cairn-mpi-targets LIBRARY COMPONENT mpi NAMELINK_COMPONENT dev)
    install(EXPORT cairn-mpi-targets NAMESPACE cairn:: DESTINATION ${CAIRN_CMAKE_DIR} COMPONENT dev)
    list(APPEND CAIRN_INSTALLED cairn_mpi_shared)
  endif()
  install(EXPORT cairn-targets NAMESPACE cairn:: DESTINATION ${CAIRN_CMAKE_DIR} COMPONENT dev)
  # Relative, so that the tree can be installed to, or moved to, any prefix.
  file(RELATIVE_PATH CAIRN_PC_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
  configure_file(cmake/cairn.pc.in cairn.pc @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/cairn.pc
          DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)
endif()
list(JOIN CAIRN_CODEC_MODULES " " CAIRN_CODEC_MODULES_TEXT)
configure_package_config_file(cmake/cairn-config.cmake.in cairn-config.cmake
                              INSTALL_DESTINATION ${CAIRN_CMAKE_DIR})
write_basic_package_version_file(cairn-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/cairn-config.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/cairn-config-version.cmake cmake/FindBlosc.cmake
        DESTINATION ${CAIRN_CMAKE_DIR} COMPONENT dev)

# Builds all of this and nothing else, also where the tests are configured.
add_custom_target(cairn_installed DEPENDS ${CAIRN_INSTALLED})
if(PROJECT_IS_TOP_LEVEL)
  include(cmake/package.cmake)
endif()

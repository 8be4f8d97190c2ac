# An overlay port: CAIRN_ARCHIVES names where the source archives of the releases lie.
if(NOT DEFINED ENV{CAIRN_ARCHIVES})
  message(FATAL_ERROR "Set CAIRN_ARCHIVES to the address of the folder with cairn-${VERSION}.tar.gz")
endif()
vcpkg_download_distfile(ARCHIVE
  URLS "$ENV{CAIRN_ARCHIVES}/cairn-${VERSION}.tar.gz"
  FILENAME "cairn-${VERSION}.tar.gz"
  SHA512 0)
vcpkg_extract_source_archive(SOURCE_PATH ARCHIVE "${ARCHIVE}")
vcpkg_check_features(OUT_FEATURE_OPTIONS options FEATURES tools CAIRN_BUILD_CLI)
vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS ${options} -DCAIRN_WITH_MPI=OFF -DCAIRN_WARNINGS_AS_ERRORS=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/cairn)
vcpkg_fixup_pkgconfig()
if("tools" IN_LIST FEATURES)
  vcpkg_copy_tools(TOOL_NAMES cairn AUTO_CLEAN)
endif()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")

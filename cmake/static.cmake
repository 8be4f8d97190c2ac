# The command as a static program, from the objects of the ordinary command and libcairn.a. It has
# four things of its own: checksums without ISA-L, fmt, and no loaders of modules and of libraries.
add_executable(cairn_static_cli EXCLUDE_FROM_ALL
  static/mpi.cc static/fmt.cc static/shared_library.cc ${PROJECT_SOURCE_DIR}/cairn/base/checksum.cc $<TARGET_OBJECTS:cairn_cli_objects>)
set_source_files_properties(static/fmt.cc PROPERTIES COMPILE_OPTIONS "-O0")
# Position-independent, so that the kernel can load it at a random address.
set_target_properties(cairn_static_cli PROPERTIES
  OUTPUT_NAME cairn RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/static" POSITION_INDEPENDENT_CODE ON)
target_link_options(cairn_static_cli PRIVATE -static-pie)
target_include_directories(cairn_static_cli PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
target_compile_features(cairn_static_cli PRIVATE cxx_std_20)
target_compile_definitions(cairn_static_cli PRIVATE CAIRN_WITHOUT_ISAL FMT_HEADER_ONLY)
# From an archive the linker takes what is still missing: never the checksums and the loader of libcairn.a.
target_link_libraries(cairn_static_cli PRIVATE cairn_warnings $<TARGET_FILE:cairn>)
foreach(name IN LISTS CAIRN_ARCHIVES)
  target_link_libraries(cairn_static_cli PRIVATE ${CAIRN_ARCHIVE_${name}})
endforeach()
target_link_libraries(cairn_static_cli PRIVATE Threads::Threads)
add_dependencies(cairn_static_cli cairn)

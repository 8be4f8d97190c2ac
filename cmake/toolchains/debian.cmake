# Cross-compiles with Debian's compiler for another processor. scripts/other-processor.sh sets
#   CAIRN_TRIPLET  the processor's name in paths, such as aarch64-linux-gnu
#   CAIRN_SYSROOT  a folder with the extracted packages of the libraries, without the headers of the
#                  C library: the compiler has its own, and must find them before those of libraries
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES CAIRN_TRIPLET CAIRN_SYSROOT)
set(CMAKE_SYSTEM_NAME Linux)
string(REGEX MATCH "^[^-]+" CMAKE_SYSTEM_PROCESSOR "${CAIRN_TRIPLET}")
set(CMAKE_CXX_COMPILER ${CAIRN_TRIPLET}-g++)
set(CMAKE_LIBRARY_ARCHITECTURE ${CAIRN_TRIPLET})

set(CMAKE_FIND_ROOT_PATH ${CAIRN_SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CAIRN_LIBRARY_FOLDER ${CAIRN_SYSROOT}/usr/lib/${CAIRN_TRIPLET})
set(ENV{PKG_CONFIG_LIBDIR} ${CAIRN_LIBRARY_FOLDER}/pkgconfig:${CAIRN_SYSROOT}/usr/share/pkgconfig)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${CAIRN_SYSROOT})

set(CAIRN_HEADERS ${CAIRN_SYSROOT}/usr/include)
set(CMAKE_CXX_FLAGS_INIT "-idirafter ${CAIRN_HEADERS} -idirafter ${CAIRN_HEADERS}/${CAIRN_TRIPLET}")
# -L: LevelDB's package names Snappy without its folder.
foreach(kind EXE SHARED MODULE)
  set(CMAKE_${kind}_LINKER_FLAGS_INIT
      "-L${CAIRN_LIBRARY_FOLDER} -Wl,-rpath-link,${CAIRN_LIBRARY_FOLDER}:${CAIRN_SYSROOT}/lib/${CAIRN_TRIPLET}")
endforeach()

# Runs the tests.
find_program(CAIRN_EMULATOR qemu-${CMAKE_SYSTEM_PROCESSOR} NO_CMAKE_FIND_ROOT_PATH)
set(CMAKE_CROSSCOMPILING_EMULATOR "${CAIRN_EMULATOR};-L;${CAIRN_SYSROOT}")

# The warnings every target of the project is compiled with; errors, so that none is ever lived with.
# A newer compiler may have more of them.
option(CAIRN_WARNINGS_AS_ERRORS "A warning ends the build" ON)
add_library(cairn_warnings INTERFACE)
target_compile_options(cairn_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
                       -Wnon-virtual-dtor -Woverloaded-virtual -Wcast-align -Wnull-dereference -Wimplicit-fallthrough $<$<BOOL:${CAIRN_WARNINGS_AS_ERRORS}>:-Werror>)
# Options are aggregates made for designated initializers: members that are not named take their defaults.
target_compile_options(cairn_warnings INTERFACE -Wno-missing-field-initializers)
# GCC 12 reports null dereferences and overflows inside the standard library's own inlined code.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(cairn_warnings INTERFACE -Wno-null-dereference -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread -Wno-restrict)
  # In a unit of several sources it takes each of them for a header.
  if(CAIRN_UNITY)
    target_compile_options(cairn_warnings INTERFACE -Wno-subobject-linkage)
  endif()
  # With sanitizers it also sees uninitialised members in std::regex and std::function; the optimised build checks for real.
  if(CAIRN_SANITIZE)
    target_compile_options(cairn_warnings INTERFACE -Wno-maybe-uninitialized)
  endif()
endif()

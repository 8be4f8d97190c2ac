# Compiles the sources of each folder as one translation unit, which takes a third of the time: most
# of a source's time goes into the headers that its neighbours include, too. scripts/lint.sh checks
# that every source also compiles alone.
option(CAIRN_UNITY "Compile each folder's sources together" ${PROJECT_IS_TOP_LEVEL})

# GCC looks for memory that it can free whenever its memory has grown by a third. It finds little,
# and that takes a sixth of the time of a large unit.
if(CAIRN_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  add_compile_options("SHELL:--param ggc-min-heapsize=1000000")
endif()

# A further argument is the most sources of a unit: a large folder gets several, so that all cores
# have work.
function(cairn_compile_by_folder target)
  if(NOT CAIRN_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  get_target_property(sources ${target} SOURCES)
  set(most ${ARGN})
  foreach(source IN LISTS sources)
    cmake_path(ABSOLUTE_PATH source NORMALIZE)
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY "${PROJECT_SOURCE_DIR}" OUTPUT_VARIABLE relative)
    cmake_path(GET relative PARENT_PATH folder)
    string(REPLACE "/" "_" group "${folder}")
    if(most)
      math(EXPR unit "0${count_of_${group}} / ${most}")
      math(EXPR count_of_${group} "0${count_of_${group}} + 1")
      string(APPEND group "_${unit}")
    endif()
    set_source_files_properties("${source}" PROPERTIES UNITY_GROUP "${group}")
  endforeach()
endfunction()

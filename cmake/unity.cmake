# Compiles the sources of each folder as one translation unit, which takes a third of the time: most
# of a source's time goes into the headers that its neighbours include, too. scripts/lint.sh checks
# that every source also compiles alone.
option(CAIRN_UNITY "Compile each folder's sources together" ${PROJECT_IS_TOP_LEVEL})

# GCC looks for memory that it can free whenever its memory has grown by a third. It finds little,
# and that takes a sixth of the time of a large unit.
if(CAIRN_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  add_compile_options("SHELL:--param ggc-min-heapsize=1000000")
endif()

# Compiles the sources of a target in units of up to `most` sources. A unit has sources of one folder
# at a level of `depth` and of all folders below it: with 2, of cairn/orbax/.
function(cairn_compile_by_folder target depth most)
  if(NOT CAIRN_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  get_target_property(sources ${target} SOURCES)
  set(groups)
  foreach(source IN LISTS sources)
    cmake_path(ABSOLUTE_PATH source NORMALIZE)
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY "${PROJECT_SOURCE_DIR}" OUTPUT_VARIABLE relative)
    string(REPLACE "/" ";" parts "${relative}")
    list(POP_BACK parts)
    list(SUBLIST parts 0 ${depth} parts)
    list(JOIN parts "_" group)
    list(APPEND groups ${group})
    list(APPEND sources_of_${group} "${source}")
  endforeach()
  list(REMOVE_DUPLICATES groups)
  foreach(group IN LISTS groups)
    list(LENGTH sources_of_${group} count)
    math(EXPR units "(${count} + ${most} - 1) / ${most}")
    set(index 0)
    foreach(source IN LISTS sources_of_${group})
      math(EXPR unit "${index} * ${units} / ${count}")
      math(EXPR index "${index} + 1")
      set_source_files_properties("${source}" PROPERTIES UNITY_GROUP "${group}_${unit}")
    endforeach()
  endforeach()
endfunction()

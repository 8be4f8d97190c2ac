# Man pages and completions, which the command itself describes: made as soon as it is built.
if(CMAKE_CROSSCOMPILING AND NOT CMAKE_CROSSCOMPILING_EMULATOR)
  message(STATUS "No man pages and completions: the command cannot run on this machine")
  return()
endif()
set(CAIRN_PAGES ${PROJECT_BINARY_DIR}/pages)
add_custom_command(
  OUTPUT ${CAIRN_PAGES}/made
  COMMAND sh ${PROJECT_SOURCE_DIR}/scripts/pages.sh $<TARGET_FILE:cairn_cli> ${CAIRN_PAGES}
          ${CMAKE_CROSSCOMPILING_EMULATOR}
  COMMAND ${CMAKE_COMMAND} -E touch ${CAIRN_PAGES}/made
  DEPENDS cairn_cli ${PROJECT_SOURCE_DIR}/scripts/pages.sh ${PROJECT_SOURCE_DIR}/scripts/man.awk
  VERBATIM COMMENT "Writing man pages and completions")
add_custom_target(cairn_pages ALL DEPENDS ${CAIRN_PAGES}/made)

# Embeds JSON documents, each under the name of its file:
#   cmake -DOUT=shipped_maps.cc -DFILES=maps/llama.json,... -DHEADER=cairn/tools/model_map/shipped_maps.h
#         -DNAMESPACE="cairn::inline v0" -DTYPE=ShippedMap -DFUNCTION=shipped_maps -P embed_json.cmake
# Writes the function that the header declares. The files are sorted by name.
string(REPLACE "," ";" files "${FILES}")
list(LENGTH files count)
file(WRITE "${OUT}" "// Made by cmake/embed_json.cmake.\n#include <${HEADER}>\n\n#include <array>\n\nnamespace ${NAMESPACE} {\n\nstd::span<const ${TYPE}> ${FUNCTION}() {\n")
file(APPEND "${OUT}" "  static constexpr std::array<${TYPE}, ${count}> kAll = {{\n")
foreach(each IN LISTS files)
  cmake_path(GET each STEM LAST_ONLY name)
  file(READ "${each}" json)
  file(APPEND "${OUT}" "      {\"${name}\", R\"json(")
  file(APPEND "${OUT}" "${json}")
  file(APPEND "${OUT}" ")json\"},\n")
endforeach()
file(APPEND "${OUT}" "  }};\n  return kAll;\n}\n\n}  // namespace ${NAMESPACE}\n")

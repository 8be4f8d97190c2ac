# Embeds the model maps in the library:
#   cmake -DOUT=shipped_maps.cc -DMAPS=cairn/tools/model_map/maps/llama.json,... -P embed_maps.cmake
# Writes the function that cairn/tools/model_map/shipped_maps.h declares.
string(REPLACE "," ";" maps "${MAPS}")
file(WRITE "${OUT}" "// Made by cmake/embed_maps.cmake.\n#include <cairn/tools/model_map/shipped_maps.h>\n\n#include <array>\n\nnamespace cairn::inline v0 {\n\nstd::span<const ShippedMap> shipped_maps() {\n")
list(LENGTH maps count)
file(APPEND "${OUT}" "  static constexpr std::array<ShippedMap, ${count}> kMaps = {{\n")
foreach(map IN LISTS maps)
  cmake_path(GET map STEM LAST_ONLY name)
  file(READ "${map}" json)
  file(APPEND "${OUT}" "      {\"${name}\", R\"map(")
  file(APPEND "${OUT}" "${json}")
  file(APPEND "${OUT}" ")map\"},\n")
endforeach()
file(APPEND "${OUT}" "  }};\n  return kMaps;\n}\n\n}  // namespace cairn::inline v0\n")

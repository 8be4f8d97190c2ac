// format.h -- which format a file has.
#pragma once

#include <cairn/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cairn {

enum class Format : std::uint8_t { kOrbax, kSafetensors, kMsgpack, kNpz, kNpy, kTensorflow };
std::string_view format_name(Format format);
// By looking at the path and the first bytes, never by extension alone; nullopt for a path that is
// none of the formats a file can have (directories are the business of is_orbax). Throws not_found
// if nothing is there.
std::optional<Format> detect_file(const std::string& path);

}  // namespace cairn

// detect.h -- detects the format of a file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cairn::inline v0 {

// A format that cairn::open recognises.
enum class Format : std::uint8_t { kOrbax, kSafetensors, kMsgpack, kNpz, kNpy, kTensorflow };
// The name for messages.
std::string_view format_name(Format format);
// Detects the format from the path and the first bytes, never from the extension alone. nullopt for
// a file of no known format; for directories see is_orbax. Throws not_found if nothing is there,
// data_loss for a Git LFS pointer.
std::optional<Format> detect_file(const std::string& path);

}  // namespace cairn::inline v0

// detect.h -- detects the format of a file.
#pragma once

#include <cairn/io/tree/file_tree.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cairn::inline v0 {

// A format that cairn::open recognises.
enum class Format : std::uint8_t {
  kOrbax,
  kSafetensors,
  kMsgpack,
  kNpz,
  kNpy,
  kTensorflow,
  kPytorch
};
// The name for messages.
std::string_view format_name(Format format);
// Detects the format from the first bytes, and where these are of no format from the path: opening
// the file then says what it holds instead. nullopt for a file of no known format; for directories
// see is_orbax. Throws not_found if nothing is there.
std::optional<Format> detect_file(const FileTree& tree, const std::string& path);
// The format that the end of a file's name promises; nullopt for any other name.
std::optional<Format> format_of_name(std::string_view path);

}  // namespace cairn::inline v0

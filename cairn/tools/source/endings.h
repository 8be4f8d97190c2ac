// endings.h -- the one table of what the extension of a path says about the file.
#pragma once

#include <cairn/convert.h>

#include <optional>
#include <string>
#include <string_view>

namespace cairn::inline v0 {

// A known extension.
struct Ending {
  std::string_view text;               // ".npz"
  std::optional<TargetFormat> format;  // what Cairn writes there; none: a file of another program
};

// The extension with which the path ends, in any case; null if it is none of the table. Slashes at
// the end of the path do not count.
const Ending* find_ending(std::string_view path);

// The extensions of files that Cairn writes: ".safetensors, .npz, .msgpack, .pt, .pth".
std::string written_endings();

}  // namespace cairn::inline v0

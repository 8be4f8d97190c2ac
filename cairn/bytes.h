// bytes.h -- runs of bytes, owned and borrowed, and what every write to storage has to decide.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace cairn {

using Bytes = std::vector<std::byte>;
using ByteView = std::span<const std::byte>;
using MutableByteView = std::span<std::byte>;

// The bytes of a text, borrowed.
inline ByteView as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}
inline std::string_view as_text(ByteView bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// When a write counts as done.
enum class Durability : std::uint8_t {
  kSynced,  // when it would survive a loss of power
  // as kUnsynced; but whoever asks will sync it soon, so that much data should be on its way to the
  // disk
  kDeferredSync,
  // when other processes see it; a loss of power may take it, or leave anything in its place
  kUnsynced
};

// What a save does where something has the name of its target.
enum class IfExists : std::uint8_t {
  kFail,  // already_exists; also if it appears while the save is under way
  // an older checkpoint gives way when the new one is whole; what is not a checkpoint is never
  // replaced
  kReplace,
};

// One process's share of a work that `count` processes do together.
struct WorkShare {
  std::size_t index = 0, count = 1;
};

}  // namespace cairn

// compression.h -- how the values of arrays are compressed when they are saved.
#pragma once

#include <cstdint>
#include <optional>

namespace cairn {

// Whatever it is, the metadata says what the deployed readers expect, and they read the values.
struct Compression {
  enum class Method : std::uint8_t {
    // zstd frames with a checksum: level 1 where a sample of the chunk gets smaller by a tenth or
    // more, else the bytes as they are
    kAuto,
    kNone,   // raw bytes
    kZstd,   // zstd frames with a checksum
    kBlosc,  // blosc with bit shuffle and lz4: no checksum
  };
  static constexpr Method kAuto = Method::kAuto;
  static constexpr Method kNone = Method::kNone;

  constexpr Compression() = default;
  constexpr Compression(Method chosen)
      : method(chosen) {}  // NOLINT(google-explicit-constructor): Compression::kNone is one
  static constexpr Compression zstd(int level) { return {Method::kZstd, level}; }
  static constexpr Compression blosc(int level = 5) { return {Method::kBlosc, level}; }

  Method method = Method::kAuto;
  std::optional<int> level;  // none: the format's default

  bool operator==(const Compression&) const = default;

 private:
  constexpr Compression(Method chosen, int at_level) : method(chosen), level(at_level) {}
};

}  // namespace cairn

// compression.h -- how a save compresses the values of arrays.
#pragma once

#include <cstdint>
#include <optional>

#pragma GCC visibility push(default)
namespace cairn::inline v0 {

// A compression method and its level. With every method, the metadata is what deployed readers
// expect, and they read the values.
struct Compression {
  // The compression method.
  enum class Method : std::uint8_t {
    // Per chunk: zstd level 1 with a checksum if a sample of the chunk shrinks by a tenth or more,
    // else uncompressed in a zstd frame with a checksum.
    kAuto,
    kNone,   // raw bytes, without a checksum
    kZstd,   // zstd frames with a checksum
    kBlosc,  // blosc with bit shuffle and lz4, without a checksum
  };
  static constexpr Method kAuto = Method::kAuto;
  static constexpr Method kNone = Method::kNone;

  constexpr Compression() = default;
  constexpr Compression(Method chosen)
      : method(chosen) {}  // NOLINT(google-explicit-constructor): Compression::kNone is one
  static constexpr Compression zstd(int level) { return {Method::kZstd, level}; }
  static constexpr Compression blosc(int level = 5) { return {Method::kBlosc, level}; }

  Method method = Method::kAuto;  // how chunks are compressed
  std::optional<int> level = {};  // none: the format's default

  bool operator==(const Compression&) const = default;

 private:
  constexpr Compression(Method chosen, int at_level) : method(chosen), level(at_level) {}
};

}  // namespace cairn::inline v0
#pragma GCC visibility pop

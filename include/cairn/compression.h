// compression.h -- how a save compresses the values of arrays.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#pragma GCC visibility push(default)
namespace cairn::inline v0 {

// A compression method and its level. With every method, the metadata is what deployed readers
// expect, and they read the values.
struct Compression {
  // The compression method.
  enum class Method : std::uint8_t {
    // Per chunk, what takes less time: zstd level 1 with a checksum, or uncompressed in a zstd
    // frame with a checksum. The save measures how fast the store takes bytes and how fast the
    // cores compress, so two saves of the same tree may differ in size. It never compresses a chunk
    // of which a sample shrinks by less than a tenth. In Zarr v3, an array in memory of which a
    // sample shrinks by less than a tenth has the codec crc32c instead of zstd.
    kAuto,
    kNone,   // raw bytes, without a checksum
    kZstd,   // zstd frames with a checksum
    kBlosc,  // blosc with bit shuffle and lz4, without a checksum
    // zstd level 9 with a checksum, or uncompressed in a zstd frame where that is smaller. It takes
    // about 25 times as long as level 1. For weights it saves 1 % more; higher levels save no more.
    kSmallest,
    // Per chunk: zstd level 1 with a checksum if a sample of the chunk shrinks by a tenth or more,
    // else uncompressed in a zstd frame with a checksum; in Zarr v3 as kAuto. Only the elements
    // decide: two saves of the same tree store the same values.
    kReproducible,
  };
  static constexpr Method kAuto = Method::kAuto;
  static constexpr Method kNone = Method::kNone;
  static constexpr Method kSmallest = Method::kSmallest;
  static constexpr Method kReproducible = Method::kReproducible;

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

// Parses "auto", "reproducible", "smallest", "none", "zstd", "zstd:1" to "zstd:19", "blosc", or
// "blosc:0" to "blosc:9". Throws invalid_argument for any other text.
Compression compression_from_text(std::string_view text);

// The decision of Compression::kAuto in a save, and its reason. A save with another method leaves
// it empty.
struct CompressionReport {
  std::uint64_t compressed_bytes = 0;      // bytes of the elements in compressed chunks
  std::uint64_t compressed_size = 0;       // bytes of these chunks as stored
  std::uint64_t raw_bytes = 0;             // bytes that are stored faster as they are
  std::uint64_t incompressible_bytes = 0;  // other bytes, which would shrink by less than a tenth
  double store_rate = 0;    // bytes that the store takes in a second: measured, or first assumed
  double coder_rate = 0;    // bytes that all threads compress in a second; 0: never measured
  std::string reason = {};  // in words; "" if there were no bytes

  bool operator==(const CompressionReport&) const = default;
};

// The compression libraries that run, with their versions: "zstd 1.5.6, zlib 1.3.1, ...".
std::string codec_versions();

// What verify() may not notice with these libraries; "" if nothing. zstd before 1.5.5 decodes some
// damaged data without a checksum to other values.
std::string codec_limitation();

}  // namespace cairn::inline v0
#pragma GCC visibility pop

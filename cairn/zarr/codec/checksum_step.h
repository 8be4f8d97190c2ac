// checksum_step.h -- the checksum steps of a chain, over bytes that arrive in parts.
#pragma once

#include <cairn/zarr/codec/codec_chain.h>
#include <cairn/zarr/codec/hdf5_checksum.h>

#include <cstdint>
#include <string_view>

namespace cairn::inline v0::zarr {

inline constexpr std::size_t kChecksumSize = 4;

// Returns whether the step is a checksum.
bool is_checksum(const ByteStep& step);

// A checksum that grows with the bytes it covers. Only for checksum steps.
class RunningChecksum {
 public:
  explicit RunningChecksum(const ByteStep& step);
  // Adds the next bytes. For lookup3, all bytes must come at once.
  void add(ByteView bytes);
  // Throws data_loss unless the four stored bytes are the checksum of all bytes.
  void check(ByteView stored) const;
  // Returns whether the checksum lies before the bytes that it covers.
  [[nodiscard]] bool at_start() const { return at_start_; }
  [[nodiscard]] std::string_view name() const;

 private:
  enum class Kind : std::uint8_t { kCrc32c, kCrc32, kAdler32, kFletcher32, kLookup3 };

  Kind kind_ = Kind::kCrc32c;
  bool at_start_ = false;
  std::uint32_t value_ = 0;  // of all kinds except Fletcher's; at first the seed of lookup3
  Fletcher32 fletcher_;
};

}  // namespace cairn::inline v0::zarr

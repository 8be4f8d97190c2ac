// checksum_step.cc -- computes and compares the checksums of a chain.
#include <cairn/zarr/codec/checksum_step.h>

#include <cairn/base/byte_order.h>
#include <cairn/base/checksum.h>
#include <cairn/error.h>

#include <string>

namespace cairn::inline v0::zarr {

bool is_checksum(const ByteStep& step) {
  return std::holds_alternative<Crc32cStep>(step) || std::holds_alternative<ChecksumStep>(step);
}

RunningChecksum::RunningChecksum(const ByteStep& step) {
  if (const auto* crc = std::get_if<Crc32cStep>(&step)) {
    at_start_ = crc->at_start;
    return;
  }
  const auto& other = std::get<ChecksumStep>(step);
  constexpr Kind kKinds[] = {Kind::kCrc32, Kind::kAdler32, Kind::kFletcher32, Kind::kLookup3};
  kind_ = kKinds[static_cast<std::size_t>(other.kind)];
  at_start_ = other.at_start;
  value_ = kind_ == Kind::kAdler32 ? 1 : other.seed;
}

std::string_view RunningChecksum::name() const {
  constexpr std::string_view kNames[] = {"crc32c", "crc32", "adler32", "fletcher32",
                                         "jenkins_lookup3"};
  return kNames[static_cast<std::size_t>(kind_)];
}

void RunningChecksum::add(ByteView bytes) {
  switch (kind_) {
    case Kind::kCrc32c:
      value_ = crc32c_extend(value_, bytes);
      break;
    case Kind::kCrc32:
      value_ = crc32_extend(value_, bytes);
      break;
    case Kind::kAdler32:
      value_ = adler32_extend(value_, bytes);
      break;
    case Kind::kFletcher32:
      fletcher_.add(bytes);
      break;
    case Kind::kLookup3:
      value_ = lookup3(bytes, value_);
      break;
  }
}

void RunningChecksum::check(ByteView stored) const {
  const auto expected = load_little_endian<std::uint32_t>(stored);
  const std::uint32_t computed = kind_ == Kind::kFletcher32 ? fletcher_.value() : value_;
  if (expected == computed) return;
  throw Error(Code::kDataLoss, std::string(name()) + " mismatch: stored " +
                                   std::to_string(expected) + ", computed " +
                                   std::to_string(computed));
}

}  // namespace cairn::inline v0::zarr

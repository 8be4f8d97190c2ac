// metadata_json.cc -- parsing helpers that both formats share.
#include <cairn/zarr/metadata/metadata_json.h>

#include <cairn/error.h>

#include <algorithm>
#include <string>

namespace cairn::inline v0::zarr {
namespace {

// NumPy's limit; TensorStore's is 32
constexpr std::size_t kMaxStoredRank = 64;
// sums below these limits need no overflow checks
constexpr std::uint64_t kMaxChunkBytes = std::uint64_t{1} << 56U;
constexpr std::uint64_t kMaxArrayBytes = std::uint64_t{1} << 62U;

[[noreturn]] void bad_member(std::string_view member, const Json& found,
                             std::string_view expected) {
  throw Error(Code::kDataLoss,
              std::string(member) + ": " + to_text(found) + " is not " + std::string(expected));
}

}  // namespace

const Json& required_member(const Json& object, std::string_view member) {
  if (const Json* value = object.find(member)) return *value;
  throw Error(Code::kDataLoss, "required member '" + std::string(member) + "' is missing");
}

const std::string& required_text(const Json& object, std::string_view member) {
  const Json& value = required_member(object, member);
  if (const auto* text = value.as_string()) return *text;
  bad_member(member, value, "a string");
}

Shape parse_extents(const Json& value, std::string_view member, std::int64_t minimum) {
  const JsonArray* items = value.as_array();
  if (!items) bad_member(member, value, "an array of integers");
  if (items->size() > kMaxStoredRank)
    throw Error(Code::kUnimplemented, std::string(member) + ": " + std::to_string(items->size()) +
                                          " dimensions exceed the limit of " +
                                          std::to_string(kMaxStoredRank));
  Shape extents;
  for (const Json& item : *items) {
    const auto extent = item.as_int64(true);
    if (!extent || *extent < minimum)
      bad_member(member, item, "an integer of at least " + std::to_string(minimum));
    extents.push_back(*extent);
  }
  return extents;
}

std::uint64_t chunk_bytes(const Shape& chunk_shape, std::size_t element_size) {
  std::uint64_t bytes = std::max<std::size_t>(element_size, 1);
  for (const std::int64_t extent : chunk_shape)
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes) ||
        bytes > kMaxChunkBytes)
      throw Error(Code::kDataLoss,
                  "chunk shape " + shape_text(chunk_shape) + " is impossibly large");
  return element_size == 0 ? 0 : bytes;
}

void check_array_size(const Shape& shape, std::size_t element_size) {
  std::uint64_t bytes = std::max<std::size_t>(element_size, 1);
  for (const std::int64_t extent : shape)
    if (extent != 0 && (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes) ||
                        bytes > kMaxArrayBytes))
      throw Error(Code::kDataLoss, "shape " + shape_text(shape) + " is impossibly large");
}

}  // namespace cairn::inline v0::zarr

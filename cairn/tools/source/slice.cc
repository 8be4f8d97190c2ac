// slice.cc -- "0:8, :, -1": converts NumPy's basic slicing to a box.
#include <cairn/base/text.h>
#include <cairn/inspect.h>

#include <algorithm>
#include <charconv>

namespace cairn::inline v0 {
namespace {

std::string_view trimmed(std::string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\t')) s.remove_suffix(1);
  return s;
}

std::vector<std::string_view> split_and_trim(std::string_view s, char separator) {
  std::vector<std::string_view> parts = split(s, separator);
  std::transform(parts.begin(), parts.end(), parts.begin(), trimmed);
  return parts;
}

[[noreturn]] void fail(Code code, std::string_view part, std::size_t dimension,
                       const std::string& why) {
  throw Error(code, "slice '" + std::string(part) + "' of dimension " + std::to_string(dimension) +
                        ": " + why);
}

std::int64_t parse_integer(std::string_view text, std::string_view part, std::size_t dimension) {
  if (text.starts_with('+')) text.remove_prefix(1);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty())
    fail(Code::kInvalidArgument, part, dimension, "expected an integer, 'start:stop' or ':'");
  return value;
}

// Resolves a bound of a slice as NumPy does: a negative one counts from the end, and it is limited
// to the array.
std::int64_t bound(std::int64_t value, std::int64_t extent) {
  if (value < 0) value = value < -extent ? 0 : value + extent;
  return std::min(value, extent);
}

void add_part(SliceSpec& spec, std::string_view part, std::int64_t extent) {
  const std::size_t d = spec.box.rank();
  const auto ends = split_and_trim(part, ':');
  if (ends.size() > 2) fail(Code::kInvalidArgument, part, d, "steps are not supported");
  if (ends.size() == 1) {
    const std::int64_t i = parse_integer(part, part, d);
    if (i >= extent || i < -extent)
      fail(Code::kOutOfRange, part, d, "the dimension has " + std::to_string(extent) + " elements");
    spec.box.origin.push_back(i < 0 ? i + extent : i);
    spec.box.shape.push_back(1);
    return;
  }
  const std::int64_t start = ends[0].empty() ? 0 : bound(parse_integer(ends[0], part, d), extent);
  const std::int64_t stop =
      ends[1].empty() ? extent : bound(parse_integer(ends[1], part, d), extent);
  spec.box.origin.push_back(start);
  spec.box.shape.push_back(std::max<std::int64_t>(stop - start, 0));
  spec.shape.push_back(spec.box.shape.back());
}

}  // namespace

SliceSpec parse_slice(std::string_view text, std::span<const std::int64_t> shape) {
  SliceSpec spec;
  auto parts = split_and_trim(text, ',');
  if (parts.size() == 1 && parts[0].empty()) parts.clear();
  const auto dots = static_cast<std::size_t>(std::count(parts.begin(), parts.end(), "..."));
  if (dots > 1)
    throw Error(Code::kInvalidArgument,
                "slice '" + std::string(text) + "': '...' may occur only once");
  if (parts.size() - dots > shape.size())
    throw Error(Code::kOutOfRange, "slice '" + std::string(text) + "' has " +
                                       std::to_string(parts.size() - dots) +
                                       " dimensions, the array " + std::to_string(shape.size()) +
                                       ": " + shape_text(shape));
  if (dots == 0) parts.emplace_back("...");
  const std::size_t whole = shape.size() - (parts.size() - 1);
  for (const auto part : parts) {
    if (part != "...") {
      add_part(spec, part, shape[spec.box.rank()]);
      continue;
    }
    for (std::size_t i = 0; i < whole; ++i) add_part(spec, ":", shape[spec.box.rank()]);
  }
  return spec;
}

}  // namespace cairn::inline v0

// slice_spec.cc -- TensorFlow's slice notation, parsed as its save and restore operations do.
#include <cairn/formats/tensorflow/sharding/slice_spec.h>

#include <cairn/base/errors.h>
#include <cairn/error.h>
#include <cairn/tensorflow.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <charconv>
#include <optional>
#include <vector>

namespace cairn::inline v0 {
namespace {

// Parses a number as TensorFlow does: it allows white space around it, and one sign.
std::optional<std::int64_t> number(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\v\f\r";
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return std::nullopt;
  text = text.substr(first, text.find_last_not_of(kSpace) - first + 1);
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Takes the next non-empty part from the front of `rest`; nullopt at the end.
std::optional<std::string_view> next_part(std::string_view& rest, char at) {
  const std::size_t first = rest.find_first_not_of(at);
  if (first == std::string_view::npos) return std::nullopt;
  rest.remove_prefix(first);
  const std::string_view part = rest.substr(0, rest.find(at));
  rest.remove_prefix(part.size());
  return part;
}

SliceExtent parse_extent(std::string_view text, std::string_view slice) {
  if (text == "-") return {};
  std::string_view rest = text;
  std::vector<std::int64_t> pair;
  while (const auto part = next_part(rest, ',')) {
    const auto value = number(*part);
    if (!value || pair.size() == 2) {
      pair.clear();
      break;
    }
    pair.push_back(*value);
  }
  if (pair.size() != 2)
    invalid_argument(
        fmt::format("Expected a pair of numbers or '-' but got '{}': string = {}", text, slice));
  if (pair[0] < 0 || pair[1] <= 0)
    invalid_argument(
        fmt::format("Expected non-negative start and positive length but got start = {}, length = "
                    "{}: string = {}",
                    pair[0], pair[1], slice));
  return {pair[0], pair[1]};
}

void check_inside_full_shape(const ShapeAndSlice& spec) {
  const auto texts = [&] {
    return fmt::format("shape = [{}], slice = {}", fmt::join(spec.full_shape, ","),
                       slice_text(spec.slice));
  };
  if (spec.slice.size() != spec.full_shape.size())
    invalid_argument("Mismatching ranks: " + texts());
  for (std::size_t d = 0; d < spec.slice.size(); ++d) {
    const auto& [start, length] = spec.slice[d];
    if (length && (start > spec.full_shape[d] || *length > spec.full_shape[d] - start))
      invalid_argument(fmt::format("Extent in dimension {} out of bounds: {}", d, texts()));
  }
}

// Fast, because one tensor may need many.
void append(std::string& text, std::int64_t number, char end) {
  std::array<char, 24> digits{};
  char* last = std::to_chars(digits.data(), digits.data() + digits.size() - 1, number).ptr;
  *last++ = end;
  text.append(digits.data(), last);
}

}  // namespace

ShapeAndSlice parse_slice_spec(std::string_view text) {
  const std::size_t blank = text.rfind(' ');
  if (blank == std::string_view::npos)
    invalid_argument(
        fmt::format("Need least two elements in shape_and_slice specification: {}", text));
  ShapeAndSlice spec;
  const std::string_view slice = text.substr(blank + 1);
  std::string_view rest = slice;
  while (const auto extent = next_part(rest, ':'))
    spec.slice.push_back(parse_extent(*extent, slice));
  std::string_view dimensions = text.substr(0, blank);
  for (bool more = true; more;) {
    const std::size_t end = dimensions.find(' ');
    more = end != std::string_view::npos;
    const auto extent = number(dimensions.substr(0, end));
    if (!extent || *extent < 0)
      invalid_argument(fmt::format("Non numerical dimension in shape_and_slice: {}", text));
    spec.full_shape.push_back(*extent);
    if (more) dimensions.remove_prefix(end + 1);
  }
  check_inside_full_shape(spec);
  return spec;
}

std::string slice_spec_text(const ShapeAndSlice& spec) {
  std::string text;
  for (const std::int64_t extent : spec.full_shape) append(text, extent, ' ');
  return text + slice_text(spec.slice);
}

std::string slice_spec_text(std::span<const std::int64_t> full_shape, const Box& part) {
  std::string text;
  for (const std::int64_t extent : full_shape) append(text, extent, ' ');
  for (std::size_t d = 0; d < part.rank(); ++d) {
    append(text, part.origin[d], ',');
    append(text, part.shape[d], ':');
  }
  if (part.rank() != 0) text.pop_back();
  return text;
}

Box slice_box(const ShapeAndSlice& spec) {
  Box box = Box::whole(spec.full_shape);
  for (std::size_t d = 0; d < spec.slice.size(); ++d) {
    if (!spec.slice[d].length) continue;
    box.origin[d] = spec.slice[d].start;
    box.shape[d] = *spec.slice[d].length;
  }
  return box;
}

std::pair<Shape, Box> read_slice_spec(std::string_view slice_spec) {
  ShapeAndSlice read = parse_slice_spec(slice_spec);
  Box part = slice_box(read);
  return {std::move(read.full_shape), std::move(part)};
}

}  // namespace cairn::inline v0

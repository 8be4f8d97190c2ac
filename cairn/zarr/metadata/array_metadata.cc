// array_metadata.cc -- the keys of chunks, and the cache of parsed metadata.

#include <cairn/zarr/metadata/array_metadata.h>

#include <charconv>
#include <utility>

namespace cairn::inline v0::zarr {
namespace {

void append_number(std::string& text, std::int64_t number) {
  char digits[20];
  const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
  text.append(digits, end);
}

}  // namespace

std::string ChunkKeys::key(std::span<const std::int64_t> chunk) const {
  std::string key = c_prefix ? "c" : chunk.empty() ? "0" : "";
  for (const std::int64_t index : chunk) {
    if (!key.empty()) key += separator;
    append_number(key, index);
  }
  return key;
}

std::optional<std::vector<std::int64_t>> ChunkKeys::position(std::string_view key,
                                                             std::size_t rank) const {
  std::vector<std::int64_t> chunk;
  std::string_view rest = key;
  while (chunk.size() < rank) {
    const auto digit = rest.find_first_of("0123456789");
    if (digit == std::string_view::npos) return std::nullopt;
    rest.remove_prefix(digit);
    const auto [end, error] =
        std::from_chars(rest.data(), rest.data() + rest.size(), chunk.emplace_back());
    if (error != std::errc()) return std::nullopt;
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  }
  // Encode the position again: each position has only one valid spelling.
  if (this->key(chunk) != key) return std::nullopt;
  return chunk;
}

std::shared_ptr<const ArrayMetadata> MetadataCache::parse(int zarr_format, std::string_view text) {
  auto& parsed = parsed_[zarr_format == 3 ? 1 : 0];
  if (const auto found = parsed.find(text); found != parsed.end()) return found->second;
  auto metadata = std::make_shared<const ArrayMetadata>(zarr_format == 3 ? parse_zarr_json(text)
                                                                         : parse_zarray(text));
  return parsed.emplace(std::string(text), std::move(metadata)).first->second;
}

}  // namespace cairn::inline v0::zarr

// gcs_reply.h -- the replies of Google Cloud Storage's JSON API, as far as the store needs them. A
// reply is input from outside: its size is bounded by the caller, and what is wrong is data_loss.
#pragma once

#include <cairn/bytes.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::inline v0::object {

// The most bytes of a reply that are read into memory.
inline constexpr std::uint64_t kMostGcsObjectReply = std::uint64_t{1} << 20U;
inline constexpr std::uint64_t kMostGcsPage = std::uint64_t{16} << 20U;  // 1000 objects

inline constexpr std::size_t kMostGcsName = 1024;  // bytes; a limit of the service

// The name of the user metadata that tells which writer made an object.
inline constexpr std::string_view kSaveMetadata = "cairn-save";

// What the service knows about one object.
struct GcsObject {
  std::string name;
  std::uint64_t size = 0;                    // bytes
  std::uint64_t generation = 0;              // never 0 for an object that exists
  std::int64_t modified_ns = 0;              // nanoseconds since 1970; 0 if the reply has none
  std::optional<std::uint32_t> crc32c = {};  // composite and old objects may have none
  std::string save = {};                     // the value of kSaveMetadata
  bool operator==(const GcsObject&) const = default;
};

// {"name": "a/b", "size": "10", "generation": "1700000000000001", "crc32c": "AAAAAA==", ...}
GcsObject parse_gcs_object(std::string_view json);

// One page of a listing: {"items": [object, ...], "prefixes": ["a/", ...], "nextPageToken": "..."}
struct GcsPage {
  std::vector<GcsObject> objects = {};
  std::vector<std::string> prefixes = {};
  std::string next_page_token = {};  // "": this is the last page
  bool operator==(const GcsPage&) const = default;
};
GcsPage parse_gcs_page(std::string_view json);

// The reply to one call of rewriteTo. Unless it is done, the call is repeated with the token.
struct GcsRewrite {
  bool is_done = false;
  std::string token = {};
  std::optional<GcsObject> object = {};  // once it is done
};
GcsRewrite parse_gcs_rewrite(std::string_view json);

// The checksum of the header "x-goog-hash: crc32c=AAAAAA==,md5=..."; nullopt if it has none.
std::optional<std::uint32_t> crc32c_of_hash(std::string_view header);
// The same checksum as the API writes it: base64 of the four bytes, the highest first.
std::string crc32c_text(std::uint32_t crc);
std::optional<std::uint32_t> parse_crc32c(std::string_view base64);

// The number after "bytes=0-" in the Range header of an unfinished upload, plus one: how many bytes
// the service has. A missing header: 0. nullopt if the header is damaged.
std::optional<std::uint64_t> stored_of_range(std::optional<std::string_view> range);

}  // namespace cairn::inline v0::object

// hub_reply.h -- the replies of the Hugging Face Hub. They are input from outside: their size is
// bounded by the caller, and what is wrong is data_loss.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::inline v0::object {

inline constexpr std::uint64_t kMostHubReply = std::uint64_t{16} << 20U;  // bytes of a reply

// One file or folder of a listing.
struct HubEntry {
  std::string path;  // from the repository's root
  bool is_folder = false;
  std::uint64_t size = 0;    // bytes
  std::string version = {};  // the hash of its content, of whichever kind
  bool operator==(const HubEntry&) const = default;
};

// [{"type": "file", "path": "a/b", "size": 10, "oid": "9ae0...", "lfs": {"oid": "e3b0...", ...}}]
std::vector<HubEntry> parse_hub_tree(std::string_view json);

// The commit of a revision: {"sha": "<40 hexadecimal digits>", ...}
std::string parse_hub_commit(std::string_view json);

// The address of the next page in a header "Link: <https://...>; rel="next""; nullopt if there is
// none.
std::optional<std::string> next_of_link(std::string_view header);

}  // namespace cairn::inline v0::object

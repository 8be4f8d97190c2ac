#include <cairn/kvstore/object/http/hub_reply.h>

#include <cairn/base/json/scan.h>
#include <cairn/base/text.h>

#include <utility>

namespace cairn::inline v0::object {
namespace {

constexpr std::size_t kMostHubPath = 4096;  // bytes
constexpr std::size_t kMostHubHash = 128;
constexpr std::size_t kMostHubLink = 8192;

std::string bounded_string(JsonScanner& in, std::size_t most, const char* what) {
  std::string text = in.string();
  if (text.empty() || text.size() > most) in.fail(std::string(what) + " is empty or too long");
  return text;
}

// The hash of a large file's content. Files that are not large have none, or null.
void read_large_file(JsonScanner& in, HubEntry& entry) {
  if (in.null()) return;
  in.begin_object();
  std::string_view name;
  while (in.next_member(name)) {
    if (name == "oid")
      entry.version = bounded_string(in, kMostHubHash, "oid");
    else
      in.skip();
  }
}

std::uint64_t size_of_entry(JsonScanner& in) {
  const std::int64_t size = in.integer();
  if (size < 0) in.fail("a size is negative");
  return static_cast<std::uint64_t>(size);
}

HubEntry read_entry(JsonScanner& in) {
  HubEntry entry;
  std::string type, hash;
  bool has_size = false;
  in.begin_object();
  std::string_view name;
  while (in.next_member(name)) {
    if (name == "path") {
      entry.path = bounded_string(in, kMostHubPath, "a path");
    } else if (name == "type") {
      type = in.string();
    } else if (name == "size") {
      entry.size = size_of_entry(in);
      has_size = true;
    } else if (name == "oid") {
      hash = bounded_string(in, kMostHubHash, "oid");
    } else if (name == "lfs") {
      read_large_file(in, entry);
    } else {
      in.skip();
    }
  }
  entry.is_folder = type == "directory";
  if (type != "file" && !entry.is_folder) in.fail("an entry is neither a file nor a directory");
  if (entry.path.empty()) in.fail("an entry has no path");
  if (!entry.is_folder && !has_size) in.fail("a file has no size");
  if (entry.version.empty()) entry.version = std::move(hash);
  return entry;
}

}  // namespace

std::vector<HubEntry> parse_hub_tree(std::string_view json) {
  return with_context([] { return std::string("the Hub's reply"); },
                      [&] {
                        std::vector<HubEntry> entries;
                        JsonScanner in(json);
                        in.begin_array();
                        while (in.next_item()) entries.push_back(read_entry(in));
                        in.finish();
                        return entries;
                      });
}

std::string parse_hub_commit(std::string_view json) {
  constexpr std::size_t kHashDigits = 40;
  return with_context([] { return std::string("the Hub's reply"); },
                      [&] {
                        std::string commit;
                        JsonScanner in(json);
                        in.begin_object();
                        std::string_view name;
                        while (in.next_member(name)) {
                          if (name == "sha")
                            commit = in.string();
                          else
                            in.skip();
                        }
                        in.finish();
                        if (commit.size() != kHashDigits || !consists_of(commit, kHexDigits))
                          in.fail("the revision has no commit");
                        return commit;
                      });
}

std::optional<std::string> next_of_link(std::string_view header) {
  while (!header.empty()) {
    const std::size_t begin = header.find('<'), end = header.find('>', begin);
    if (begin == std::string_view::npos || end == std::string_view::npos) return std::nullopt;
    const std::string_view address = header.substr(begin + 1, end - begin - 1);
    header.remove_prefix(end + 1);
    // The parameters end where the next address begins.
    const std::string_view parameters = header.substr(0, header.find('<'));
    const bool is_next = parameters.find("rel=\"next\"") != std::string_view::npos ||
                         parameters.find("rel=next") != std::string_view::npos;
    if (is_next && !address.empty() && address.size() <= kMostHubLink) return std::string(address);
  }
  return std::nullopt;
}

}  // namespace cairn::inline v0::object

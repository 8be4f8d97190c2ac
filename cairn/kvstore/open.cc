// open.cc -- opens the store of a URL, and the store that adds a prefix to each key.
#include <cairn/kvstore/range.h>
#include <cairn/kvstore/routing_store.h>
#include <cairn/kvstore/url.h>
#include <cairn/storage/kvstore.h>

#include <charconv>
#include <utility>

namespace cairn::inline v0 {
namespace {

class PrefixStore : public RoutingStore {
 public:
  PrefixStore(StorePtr base, std::string prefix)
      : base_(std::move(base)), prefix_(std::move(prefix)) {}

  std::vector<ListEntry> list(std::string_view prefix) const override {
    std::vector<ListEntry> entries = base_->list(prefix_ + std::string(prefix));
    for (auto& entry : entries) entry.key.erase(0, prefix_.size());
    // The base store may contain a key that equals the prefix. In this store it would be the empty
    // key, which is invalid.
    if (!entries.empty() && entries.front().key.empty()) entries.erase(entries.begin());
    return entries;
  }
  std::string describe(std::string_view key) const override {
    return base_->describe(prefix_ + std::string(key));
  }

 protected:
  [[nodiscard]] Target find(std::string_view key) const override {
    check_not_empty(key);
    return {base_.get(), prefix_ + std::string(key)};
  }

 private:
  StorePtr base_;
  std::string prefix_;
};

// Returns the scheme of "scheme://...", in lower case; empty if `url` is a plain path.
std::string scheme_of(std::string_view url) {
  const auto end = url.find("://");
  if (end == std::string_view::npos || end == 0) return {};
  std::string scheme(url.substr(0, end));
  for (char& c : scheme) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    const bool legal =
        (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
    if (!legal) return {};
  }
  return scheme;
}

[[noreturn]] void fail_url(std::string_view url, const std::string& why) {
  throw Error(Code::kInvalidArgument, "URL \"" + std::string(url) + "\": " + why);
}

}  // namespace

std::string percent_decoded(std::string_view text, std::string_view url) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '?' || text[i] == '#')
      fail_url(url, "\"?\" and \"#\" in a path must be written %3F and %23");
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    unsigned value = 0;
    const std::string_view digits = text.substr(i + 1, 2);
    const char* const end = digits.data() + digits.size();
    if (digits.size() != 2 || std::from_chars(digits.data(), end, value, 16).ptr != end)
      fail_url(url, "\"%\" needs two hexadecimal digits");
    out += static_cast<char>(value);
    i += 2;
  }
  return out;
}

std::string file_url_path(std::string_view url) {
  std::string_view rest = url.substr(std::string_view("file://").size());
  constexpr std::string_view kThisMachine = "localhost";
  if (rest.starts_with(kThisMachine)) rest.remove_prefix(kThisMachine.size());
  if (!rest.starts_with('/'))
    fail_url(url, "a file URL is file:// and an absolute path (file:///data/x)");
  return percent_decoded(rest, url);
}

StorePtr open_store(std::string_view url) {
  const std::string scheme = scheme_of(url);
  if (scheme.empty()) return open_file_store(std::string(url));
  if (scheme == "file") return open_file_store(file_url_path(url));
  if (scheme != "memory")
    throw Error(Code::kUnimplemented,
                "URL \"" + std::string(url) + "\": Cairn has no store for " + scheme + "://");
  if (url.size() != std::string_view("memory://").size())
    fail_url(url, "memory:// is a new empty store and takes no path");
  return make_memory_store();
}

StorePtr prefix_store(StorePtr base, std::string prefix) {
  return std::make_shared<PrefixStore>(std::move(base), std::move(prefix));
}

}  // namespace cairn::inline v0

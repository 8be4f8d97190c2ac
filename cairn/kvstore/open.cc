// open.cc -- opens the store of a URL, and the store that adds a prefix to each key.
#include <cairn/kvstore/memory_names.h>
#include <cairn/kvstore/object/open_object_store.h>
#include <cairn/kvstore/range.h>
#include <cairn/kvstore/routing_store.h>
#include <cairn/kvstore/url.h>
#include <cairn/storage/kvstore.h>

#include <charconv>
#include <map>
#include <mutex>
#include <utility>

namespace cairn::inline v0 {
namespace {

constexpr std::string_view kAfterScheme = "://";

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
  StoreListing list_level(std::string_view prefix) const override {
    return without_prefix(base_->list_level(prefix_ + std::string(prefix)));
  }
  StoreListing list_values(std::string_view prefix, std::size_t most) const override {
    return without_prefix(base_->list_values(prefix_ + std::string(prefix), most));
  }
  void remove_all(const std::vector<std::string>& keys) override {
    std::vector<std::string> all;
    all.reserve(keys.size());
    for (const std::string& key : keys) all.push_back(find(key).key);
    base_->remove_all(all);
  }
  bool copy(std::string_view from, std::string_view to) override {
    return base_->copy(find(from).key, find(to).key);
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
  // As list(): a key that equals the prefix would be the empty key here.
  [[nodiscard]] StoreListing without_prefix(StoreListing listing) const {
    for (StoredValue& value : listing.values) value.key.erase(0, prefix_.size());
    for (std::string& folder : listing.folders) folder.erase(0, prefix_.size());
    if (!listing.values.empty() && listing.values.front().key.empty())
      listing.values.erase(listing.values.begin());
    return listing;
  }

  StorePtr base_;
  std::string prefix_;
};

// Opens "NAME/prefix"; "": a new store.
StorePtr open_memory(std::string_view rest) {
  while (rest.ends_with('/')) rest.remove_suffix(1);
  if (rest.empty()) return make_memory_store();
  const auto slash = rest.find('/');
  StorePtr store = named_memory_store(std::string(rest.substr(0, slash)));
  if (slash == std::string_view::npos) return store;
  return prefix_store(std::move(store), std::string(rest.substr(slash + 1)) + "/");
}

[[noreturn]] void fail_url(std::string_view url, const std::string& why) {
  throw Error(Code::kInvalidArgument, "URL \"" + std::string(url) + "\": " + why);
}

struct MemoryNames {
  std::mutex mutex;
  std::map<std::string, StorePtr> stores;
};
MemoryNames& memory_names() {
  static MemoryNames names;
  return names;
}

}  // namespace

StorePtr named_memory_store(const std::string& name) {
  MemoryNames& names = memory_names();
  const std::scoped_lock lock(names.mutex);
  StorePtr& store = names.stores[name];
  if (!store) store = make_memory_store();
  return store;
}

void name_memory_store(const std::string& name, StorePtr store) {
  MemoryNames& names = memory_names();
  const std::scoped_lock lock(names.mutex);
  names.stores[name] = std::move(store);
}

std::string url_scheme(std::string_view url) {
  const auto end = url.find(kAfterScheme);
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

StorePtr open_store(std::string_view url, const StoreOptions& options) {
  const std::string scheme = url_scheme(url);
  if (scheme.empty()) return open_file_store(std::string(url));
  if (scheme == "file") return open_file_store(file_url_path(url));
  if (scheme == "memory") return open_memory(url.substr(scheme.size() + kAfterScheme.size()));
  if (scheme == "s3" || scheme == "gs" || scheme == "http" || scheme == "https" || scheme == "hf")
    return object::open_object_store(url, options);
  throw Error(Code::kUnimplemented,
              "URL \"" + std::string(url) + "\": Cairn has no store for " + scheme + "://");
}

StorePtr prefix_store(StorePtr base, std::string prefix) {
  return std::make_shared<PrefixStore>(std::move(base), std::move(prefix));
}

}  // namespace cairn::inline v0

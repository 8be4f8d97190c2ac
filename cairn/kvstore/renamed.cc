// renamed.cc -- presents a store with folders under other names.
#include <cairn/kvstore/renamed.h>

#include <cairn/base/text.h>
#include <cairn/kvstore/routing_store.h>

#include <algorithm>
#include <functional>
#include <utility>

namespace cairn::inline v0 {
namespace {

// The longest folder above `key` that `names` has, or end().
template <class Map>
typename Map::const_iterator find_above(const Map& names, std::string_view key) {
  auto found = names.end();
  any_parent_from_end(key, [&](std::string_view folder) {
    found = names.find(folder);
    return found != names.end();
  });
  return found;
}

class RenamedStore : public RoutingStore {
 public:
  RenamedStore(StorePtr base, const std::map<std::string, std::string>& folders)
      : RoutingStore("a T5X checkpoint is read-only"), base_(std::move(base)) {
    for (const auto& [name, folder] : folders) {
      names_.emplace(folder, name);
      folders_.emplace(name, folder);
    }
  }

  std::vector<ListEntry> list(std::string_view prefix) const override {
    std::vector<ListEntry> entries;
    const auto add = [&](std::string key, std::uint64_t size) {
      if (key.starts_with(prefix)) entries.push_back({std::move(key), size});
    };
    for (const std::string& inside : base_prefixes(prefix)) {
      for (const ListEntry& entry : base_->list(inside)) {
        const auto folder = find_above(names_, entry.key);
        if (folder == names_.end()) {
          if (find_above(folders_, entry.key) == folders_.end()) add(entry.key, entry.size);
          continue;
        }
        const auto [begin, end] = names_.equal_range(folder->first);
        for (auto it = begin; it != end; ++it)
          add(it->second + entry.key.substr(folder->first.size()), entry.size);
      }
    }
    std::sort(entries.begin(), entries.end(),
              [](const ListEntry& a, const ListEntry& b) { return a.key < b.key; });
    return entries;
  }

 protected:
  [[nodiscard]] Target find(std::string_view key) const override {
    const auto name = find_above(folders_, key);
    if (name == folders_.end()) return {base_.get(), std::string(key)};
    return {base_.get(), name->second + std::string(key.substr(name->first.size()))};
  }

 private:
  // The prefixes of all keys of the base store that may appear with this prefix. None of them is a
  // prefix of another.
  std::vector<std::string> base_prefixes(std::string_view prefix) const {
    std::vector<std::string> all{std::string(prefix)};
    for (const auto& [name, folder] : folders_) {
      const std::string below = name + "/";
      if (below.starts_with(prefix))
        all.push_back(folder + "/");
      else if (prefix.starts_with(below))
        all.push_back(folder + std::string(prefix.substr(name.size())));
    }
    std::sort(all.begin(), all.end());
    std::vector<std::string> kept;
    for (std::string& one : all)
      if (kept.empty() || !one.starts_with(kept.back())) kept.push_back(std::move(one));
    return kept;
  }

  StorePtr base_;
  std::map<std::string, std::string, std::less<>> folders_;     // name -> folder
  std::multimap<std::string, std::string, std::less<>> names_;  // folder -> name
};

}  // namespace

StorePtr renamed_store(StorePtr base, const std::map<std::string, std::string>& folders) {
  return std::make_shared<RenamedStore>(std::move(base), folders);
}

}  // namespace cairn::inline v0

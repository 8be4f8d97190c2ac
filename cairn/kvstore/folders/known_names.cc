// known_names.cc -- asks for names in parallel, and remembers which exist.
#include <cairn/kvstore/folders/known_names.h>

#include <cairn/base/executor.h>
#include <cairn/error.h>

#include <algorithm>
#include <utility>

namespace cairn::inline v0 {

KnownNames::KnownNames(StorePtr base)
    : RoutingStore("a web server is read-only"), base_(std::move(base)) {}

KnownNames::Target KnownNames::find(std::string_view key) const {
  return {base_.get(), std::string(key)};
}

bool KnownNames::is_asked(const std::string& key) const {
  const std::scoped_lock lock(mutex_);
  return asked_.contains(key);
}

void KnownNames::ask_for(const std::string& key, Need need) const {
  std::shared_ptr<const RangeSource> source;
  std::optional<std::uint64_t> size;
  try {
    if (need == Need::kContent) source = base_->open(key, {});
    size = source ? source->size() : need == Need::kSize ? base_->size(key) : std::nullopt;
  } catch (const Error& e) {
    if (e.code() != Code::kInvalidArgument) throw;  // the store cannot have such a name
  }
  const std::scoped_lock lock(mutex_);
  asked_.try_emplace(key, size);
  // A source holds the beginning of its value.
  const std::uint64_t held = std::min<std::uint64_t>(size.value_or(0), std::uint64_t{16} << 20U);
  if (!source || held > kMostKept - kept_) return;
  kept_ += held;
  opened_.try_emplace(key, std::move(source));
}

void KnownNames::ask(const std::vector<std::string>& keys, Need need) const {
  constexpr std::size_t kMostAtOnce = 32;
  std::vector<std::string> unknown;
  for (const std::string& key : keys)
    if (!is_asked(key)) unknown.push_back(key);
  if (unknown.size() > names_left())
    throw Error(Code::kUnimplemented,
                base_->describe("") + ": has more than " + std::to_string(kMostNames) +
                    " files, too many to ask a web server for one by one; copy the checkpoint");
  if (unknown.empty()) return;
  Executor executor(std::min(unknown.size(), kMostAtOnce));
  executor.for_each(unknown.size(), [&](std::size_t i) { ask_for(unknown[i], need); });
}

bool KnownNames::has(const std::string& key) const {
  const std::scoped_lock lock(mutex_);
  const auto found = asked_.find(key);
  return found != asked_.end() && found->second.has_value();
}

bool KnownNames::has_folder(const std::string& folder) const {
  const std::scoped_lock lock(mutex_);
  for (auto at = asked_.lower_bound(folder); at != asked_.end() && at->first.starts_with(folder);
       ++at)
    if (at->second) return true;
  return false;
}

std::size_t KnownNames::names_left() const {
  const std::scoped_lock lock(mutex_);
  return kMostNames - std::min(kMostNames, asked_.size());
}

std::optional<StoredValue> KnownNames::look_up(const std::string& key) const {
  // Some servers answer with a page for people at the name of a folder.
  if (has_folder(key + "/")) return std::nullopt;
  if (!is_asked(key)) ask_for(key, Need::kSize);
  const std::scoped_lock lock(mutex_);
  const auto& size = asked_.at(key);
  return size ? std::optional(StoredValue{.key = key, .size = *size}) : std::nullopt;
}

std::vector<ListEntry> KnownNames::list(std::string_view prefix) const {
  const std::scoped_lock lock(mutex_);
  std::vector<ListEntry> entries;
  for (auto at = asked_.lower_bound(prefix); at != asked_.end() && at->first.starts_with(prefix);
       ++at)
    if (at->second) entries.push_back({.key = at->first, .size = *at->second});
  return entries;
}

std::optional<std::uint64_t> KnownNames::size(std::string_view key) const {
  const auto value = look_up(std::string(key));
  return value ? std::optional(value->size) : std::nullopt;
}

std::shared_ptr<const RangeSource> KnownNames::open_listed(const StoredValue& value) const {
  {
    const std::scoped_lock lock(mutex_);
    if (const auto kept = opened_.find(value.key); kept != opened_.end()) return kept->second;
  }
  return base_->open(value.key, value.version);
}

}  // namespace cairn::inline v0

// create_only_store.cc -- creates values, and keeps account of them.
#include <cairn/kvstore/folders/create_only_store.h>

#include <cairn/base/memory/raw_bytes.h>
#include <cairn/error.h>
#include <cairn/kvstore/upload_memory.h>

#include <optional>
#include <utility>

namespace cairn::inline v0 {
namespace {

// A value of up to kSmallValue is stored with one conditional write. A larger one is passed on as
// it comes. No store has a condition for its end, so the key is looked up just before: the name of
// a chunk, unlike that of a data file, is also the name of the other save's chunk.
class CreatingAppender final : public UploadAppender {
 public:
  CreatingAppender(CreateOnlyStore& store, KvStore& base, std::string key)
      : store_(store), base_(base), key_(std::move(key)) {}

  void limit_memory(std::uint64_t bytes) override { memory_ = bytes; }
  void append(std::span<const ByteView> parts) override {
    for (const ByteView part : parts) size_ += part.size();
    if (large_) return large_->append(parts);
    if (size_ <= kSmallValue) {
      for (const ByteView part : parts) small_.insert(small_.end(), part.begin(), part.end());
      return;
    }
    large_ = base_.append(key_);
    if (memory_) cairn::limit_memory(*large_, *memory_);
    if (!small_.empty()) {
      const ByteView begun = small_;
      large_->append({&begun, 1});
      small_ = {};
    }
    large_->append(parts);
  }
  [[nodiscard]] std::uint64_t size() const override { return size_; }
  void commit() override {
    if (!large_) return store_.write(key_, small_);
    store_.check_absent(key_);
    large_->commit();
    store_.note(key_, size_);
  }

 private:
  static constexpr std::uint64_t kSmallValue = std::uint64_t{4} << 20U;

  CreateOnlyStore& store_;
  KvStore& base_;
  std::string key_;
  std::optional<std::uint64_t> memory_;
  RawBytes small_;
  std::unique_ptr<Appender> large_;  // null: small_ has all
  std::uint64_t size_ = 0;
};

}  // namespace

void CreateOnlyStore::refuse(std::string_view key, std::string_view why) const {
  throw Error(Code::kUnavailable, base_->describe(key) + ": " + std::string(why) +
                                      "; another save writes to the same place");
}

void CreateOnlyStore::check_absent(std::string_view key) const {
  if (base_->size(key)) refuse(key, is_own(key) ? "is written twice" : "is there already");
}

void CreateOnlyStore::note(std::string_view key, std::uint64_t size) {
  const std::scoped_lock lock(mutex_);
  written_.insert_or_assign(std::string(key), size);
}

bool CreateOnlyStore::is_own(std::string_view key) const {
  const std::scoped_lock lock(mutex_);
  return written_.contains(key);
}

std::optional<Bytes> CreateOnlyStore::read(std::string_view key, ByteRange range) const {
  if (!is_shared_ && !is_own(key)) return std::nullopt;
  return base_->read(key, range);
}

std::optional<Bytes> CreateOnlyStore::read_at_most(std::string_view key, std::uint64_t most) const {
  if (!is_shared_ && !is_own(key)) return std::nullopt;
  return base_->read_at_most(key, most);
}

void CreateOnlyStore::write(std::string_view key, ByteView value) {
  if (!replace_if(key, std::nullopt, value)) refuse(key, "is written twice");
}

void CreateOnlyStore::rewrite(std::string_view key, ByteView before, ByteView value) {
  if (!replace_if(key, before, value)) refuse(key, "has been replaced");
}

bool CreateOnlyStore::replace_if(std::string_view key, std::optional<ByteView> expected,
                                 ByteView value) {
  // A value of another save must not become part of this one, as a database would let it.
  if (expected && !is_own(key)) refuse(key, "was added meanwhile");
  if (!base_->replace_if(key, expected, value)) {
    if (!is_own(key)) refuse(key, "is there already");
    return false;
  }
  note(key, value.size());
  return true;
}

bool CreateOnlyStore::copy(std::string_view from, std::string_view to) {
  check_absent(to);
  const auto size = base_->size(from);
  if (!size || !base_->copy(from, to)) return false;
  note(to, *size);
  return true;
}

void CreateOnlyStore::remove(std::string_view key) {
  base_->remove(key);
  const std::scoped_lock lock(mutex_);
  if (const auto found = written_.find(key); found != written_.end()) written_.erase(found);
}

void CreateOnlyStore::remove_all(const std::vector<std::string>& keys) {
  base_->remove_all(keys);
  const std::scoped_lock lock(mutex_);
  for (const std::string& key : keys) written_.erase(key);
}

void CreateOnlyStore::remove_written(std::string_view but) {
  std::vector<std::string> keys;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [key, size] : written_)
      if (key != but) keys.push_back(key);
  }
  remove_all(keys);
}

std::unique_ptr<Appender> CreateOnlyStore::append(std::string_view key) {
  return std::make_unique<CreatingAppender>(*this, *base_, std::string(key));
}

void CreateOnlyStore::check_stored() const {
  const std::vector<ListEntry> stored = base_->list("");
  const std::scoped_lock lock(mutex_);
  std::size_t found = 0;
  for (const ListEntry& entry : stored) {
    const auto own = written_.find(entry.key);
    if (own == written_.end() && !is_shared_) refuse(entry.key, "was added meanwhile");
    if (own == written_.end()) continue;
    if (own->second != entry.size) refuse(entry.key, "has been replaced");
    ++found;
  }
  if (found == written_.size()) return;
  std::map<std::string_view, std::uint64_t> sizes;
  for (const ListEntry& entry : stored) sizes.emplace(entry.key, entry.size);
  for (const auto& [key, size] : written_)
    if (!sizes.contains(key)) refuse(key, "has been removed");
}

}  // namespace cairn::inline v0

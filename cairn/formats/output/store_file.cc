// store_file.cc -- passes bytes on in their order.
#include <cairn/formats/output/store_file.h>

#include <cairn/base/cancellation.h>
#include <cairn/error.h>
#include <cairn/formats/output/store_claim.h>
#include <cairn/kvstore/upload_memory.h>

#include <fmt/format.h>

#include <optional>
#include <utility>

namespace cairn::inline v0 {
StoreFile::StoreFile(StorePtr store, StoreFileSpec spec)
    : store_(std::move(store)), spec_(std::move(spec)) {}

void StoreFile::append(ByteView bytes) { write_at(size(), bytes); }

void StoreFile::append(std::span<const ByteView> parts) {
  for (const ByteView part : parts) append(part);
}

std::uint64_t StoreFile::size() const {
  const std::scoped_lock lock(mutex_);
  return at_;
}

void StoreFile::write_at(std::uint64_t offset, ByteView bytes) {
  if (bytes.empty()) return;
  const std::scoped_lock lock(mutex_);
  if (offset < at_ || offset > spec_.size || bytes.size() > spec_.size - offset)
    throw Error(Code::kFailedPrecondition,
                fmt::format("{}: {} bytes were to be written at {}, out of order: {} of {} bytes "
                            "are written",
                            spec_.url, bytes.size(), offset, at_, spec_.size));
  if (offset > at_) {
    waiting_.emplace(offset, Bytes(bytes.begin(), bytes.end()));
    return;
  }
  put(bytes);
  for (auto next = waiting_.begin(); next != waiting_.end() && next->first == at_;
       next = waiting_.erase(next))
    put(next->second);
  if (at_ == spec_.size && spec_.commits_itself) store_it();
}

void StoreFile::put(ByteView bytes) {
  throw_if_cancelled();
  if (spec_.watch) spec_.watch(false);
  // One request, which the store makes conditional.
  if (spec_.size <= kUploadPart) {
    whole_.insert(whole_.end(), bytes.begin(), bytes.end());
  } else {
    if (!appender_) appender_ = store_->append(spec_.key);
    const ByteView parts[] = {bytes};
    appender_->append(parts);
  }
  at_ += bytes.size();
}

void StoreFile::commit() {
  const std::scoped_lock lock(mutex_);
  if (!is_stored_) store_it();
}

// An appender stores without a condition. So the key is taken right before, by a mark.
void StoreFile::store_it() {
  if (at_ != spec_.size)
    throw Error(Code::kFailedPrecondition,
                fmt::format("{}: {} of {} bytes are written", spec_.url, at_, spec_.size));
  if (spec_.watch) spec_.watch(true);
  const ClaimedKey key{.store = store_, .key = spec_.key, .url = spec_.url};
  if (appender_) {
    std::optional<StoreClaim> claim;
    if (spec_.if_exists == IfExists::kFail) claim.emplace(key, IfExists::kFail);
    appender_->commit();
    if (claim) claim->release();
    appender_.reset();
  } else if (spec_.if_exists == IfExists::kReplace) {
    store_->write(spec_.key, whole_);
  } else if (!store_->replace_if(spec_.key, std::nullopt, whole_)) {
    refuse_taken_key(key);
  }
  whole_ = {};
  is_stored_ = true;
}

void StoreFile::discard() noexcept {
  const std::scoped_lock lock(mutex_);
  const CancellationScope scope{Cancellation()};
  appender_.reset();
  waiting_.clear();
  whole_ = {};
  if (std::exchange(is_stored_, false))
    (void)try_call([&] { return store_->remove(spec_.key), true; });
}

}  // namespace cairn::inline v0

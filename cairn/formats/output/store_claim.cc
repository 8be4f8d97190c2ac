// store_claim.cc -- writes and compares marks.
#include <cairn/formats/output/store_claim.h>

#include <cairn/base/cancellation.h>
#include <cairn/error.h>
#include <cairn/formats/files/foreign_content.h>
#include <cairn/io/output_file.h>

#include <fmt/format.h>

#include <random>
#include <utility>

namespace cairn::inline v0 {
namespace {

using std::chrono::steady_clock;
using std::chrono::system_clock;

constexpr std::uint64_t kMostIndex = std::uint64_t{1} << 30U;  // bytes that a mark may replace
constexpr int kBeats = 6;                                      // of a live save in one lease

std::string new_mark() {
  std::random_device device;
  return fmt::format("{}{:08x}{:08x}{:08x}{:08x}\n", kUnfinishedMark, device(), device(), device(),
                     device());
}

bool is_mark(ByteView value) { return as_text(value).starts_with(kUnfinishedMark); }

// How long ago the store has got the value. A clock that is behind: now.
std::chrono::nanoseconds age_of(const ClaimedKey& key) {
  const auto source = key.store->open(key.key, {});
  if (!source) return std::chrono::nanoseconds::zero();
  const auto now = system_clock::now().time_since_epoch();
  return std::max(std::chrono::nanoseconds::zero(),
                  now - std::chrono::nanoseconds(source->modified_ns()));
}

void check_not_alive(const ClaimedKey& key) {
  const auto age = age_of(key);
  if (age >= key.lease) return;
  const auto seconds = [](auto time) {
    return std::chrono::ceil<std::chrono::seconds>(time).count();
  };
  throw Error(Code::kUnavailable,
              fmt::format("{}: another save to it was at work {} s ago; if it was interrupted, try "
                          "again in {} s",
                          key.url, seconds(age), seconds(key.lease - age)));
}

}  // namespace

void refuse_taken_key(const ClaimedKey& key) {
  const auto stored = try_call([&] {
    return key.store->read(key.key, {0, kUnfinishedMark.size()});
  });
  if (!stored || !stored.value() || !is_mark(*stored.value())) refuse_taken_name(key.url);
  throw Error(Code::kAlreadyExists,
              key.url +
                  ": a save to it is in progress, or was interrupted; if nobody saves there, allow "
                  "replacing it with --force (if_exists)");
}

StoreClaim::StoreClaim(ClaimedKey key, IfExists if_exists)
    : key_(std::move(key)), mark_(new_mark()), written_(steady_clock::now()) {
  if (if_exists == IfExists::kReplace) old_ = key_.store->read_at_most(key_.key, kMostIndex);
  if (old_ && is_mark(*old_)) check_not_alive(key_);
  const auto expected = old_ ? std::optional<ByteView>(*old_) : std::nullopt;
  const bool is_taken = key_.store->replace_if(key_.key, expected, as_bytes(mark_));
  if (old_ && is_mark(*old_)) old_.reset();
  if (is_taken) return;
  if (if_exists == IfExists::kFail) refuse_taken_key(key_);
  throw Error(Code::kUnavailable,
              key_.url + ": another save to it has begun at the same moment; try again");
}

StoreClaim::~StoreClaim() {
  if (!is_held_ || !is_ours()) return;
  const CancellationScope scope{Cancellation()};
  (void)try_call([&] {
    if (old_) return key_.store->replace_if(key_.key, as_bytes(mark_), *old_);
    key_.store->remove(key_.key);
    return true;
  });
}

bool StoreClaim::is_there() const {
  const auto stored = key_.store->read_at_most(key_.key, kMostIndex);
  return stored && as_text(*stored) == mark_;
}

bool StoreClaim::is_ours() const noexcept {
  const CancellationScope scope{Cancellation()};
  const auto there = try_call([&] { return is_there(); });
  return there.ok() && there.value();
}

void StoreClaim::fail_lost() {
  is_held_ = false;
  throw Error(Code::kUnavailable, key_.url +
                                      ": another save to it has begun meanwhile, so this one is "
                                      "given up; only one may write there at a time");
}

void StoreClaim::keep_alive() {
  if (steady_clock::now() - written_ < key_.lease / kBeats) return;
  if (!key_.store->replace_if(key_.key, as_bytes(mark_), as_bytes(mark_))) fail_lost();
  written_ = steady_clock::now();
}

void StoreClaim::check() {
  if (!is_there()) fail_lost();
}

void StoreClaim::replace_by(ByteView value) {
  if (!key_.store->replace_if(key_.key, as_bytes(mark_), value)) fail_lost();
  is_held_ = false;
}

}  // namespace cairn::inline v0

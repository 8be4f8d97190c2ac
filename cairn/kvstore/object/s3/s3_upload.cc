// s3_upload.cc -- multipart uploads.
#include <cairn/kvstore/object/s3/s3_upload.h>

#include <cairn/base/cancellation.h>

#include <algorithm>
#include <utility>

namespace cairn::inline v0::object {
namespace {

constexpr std::size_t kMostParts = 10'000;  // of one upload, by S3
// The memory of a value that exceeds this share of a part grows to a whole part at once.
constexpr std::size_t kSmallShare = 16;

}  // namespace

S3Upload::S3Upload(std::shared_ptr<S3Client> client, std::string key, std::string name,
                   std::size_t part_size)
    : client_(std::move(client)),
      key_(std::move(key)),
      name_(std::move(name)),
      part_size_(part_size) {}

S3Upload::~S3Upload() {
  if (!is_committed_) abort();
}

void S3Upload::check_open(std::string_view what) const {
  if (is_committed_) throw Error(Code::kFailedPrecondition, name_ + ": " + std::string(what));
}

void S3Upload::append(std::span<const ByteView> parts) {
  check_open("written after its commit");
  with_context([&] { return name_; },
               [&] {
                 for (const ByteView part : parts) add(part);
               });
}

void S3Upload::limit_memory(std::uint64_t bytes) {
  // One part fills and one is sent, whatever the limit.
  const std::uint64_t held = std::clamp<std::uint64_t>(bytes / part_size_, 2, kMostPartsHeld);
  most_sent_ = static_cast<std::size_t>(held) - 1;
}

void S3Upload::add(ByteView bytes) {
  while (!bytes.empty()) {
    // Only when more follows: a value of exactly one part needs no multipart upload.
    if (filling_.size() == part_size_) send_part();
    const std::size_t count = std::min(bytes.size(), part_size_ - filling_.size());
    // Without this, a part would be copied whenever its memory grows.
    if (filling_.size() + count > part_size_ / kSmallShare) filling_.reserve(part_size_);
    filling_.insert(filling_.end(), bytes.begin(),
                    bytes.begin() + static_cast<std::ptrdiff_t>(count));
    size_ += count;
    bytes = bytes.subspan(count);
  }
}

// The parts wait for the upload's id, and the caller does not.
void S3Upload::begin() {
  const auto ask = [client = client_, key = key_, cancellation = current_cancellation()] {
    const CancellationScope scope(cancellation);
    return client->begin_upload(key);
  };
  id_ = std::async(std::launch::async | std::launch::deferred, ask).share();
  parts_ = std::make_unique<PartQueue>(
      [client = client_, key = key_, id = id_](std::size_t number, ByteView bytes) {
        return client->put_part(key, id.get(), number, bytes);
      });
}

void S3Upload::send_part() {
  if (parts_ == nullptr) begin();
  if (parts_->count() == kMostParts)
    throw Error(Code::kUnimplemented, "it is larger than " +
                                          std::to_string(kMostParts * (kUploadPart >> 20U)) +
                                          " MiB, the largest object that Cairn uploads");
  parts_->send(filling_, most_sent_);
}

void S3Upload::commit() {
  check_open("committed twice");
  with_context([&] { return name_; },
               [&] {
                 const ByteView rest = filling_;
                 if (parts_ == nullptr) {
                   (void)client_->put({.key = key_, .parts = {&rest, 1}});
                 } else {
                   send_part();
                   client_->complete(key_, id_.get(), parts_->finish(), size_);
                 }
               });
  is_committed_ = true;
  filling_ = {};
  parts_.reset();
}

// The store charges for the parts of an upload until it is aborted. `cairn clean` finds those that
// this could not reach.
void S3Upload::abort() noexcept {
  parts_.reset();
  if (!id_.valid()) return;
  try {
    const CancellationScope scope{Cancellation()};
    client_->abort(key_, id_.get());
  } catch (const std::exception&) {  // it has not begun, or the store does not answer
  }
}

}  // namespace cairn::inline v0::object

// s3_upload.cc -- multipart uploads.
#include <cairn/kvstore/object/s3/s3_upload.h>

#include <cairn/base/cancellation.h>

#include <algorithm>
#include <utility>

namespace cairn::inline v0::object {
namespace {

constexpr std::size_t kMostParts = 10'000;  // of one upload, by S3

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

void S3Upload::add(ByteView bytes) {
  while (!bytes.empty()) {
    // Only when more follows: a value of exactly one part needs no multipart upload.
    if (filling_.size() == part_size_) send_part();
    const std::size_t count = std::min(bytes.size(), part_size_ - filling_.size());
    filling_.insert(filling_.end(), bytes.begin(),
                    bytes.begin() + static_cast<std::ptrdiff_t>(count));
    size_ += count;
    bytes = bytes.subspan(count);
  }
}

// Starts to send the filled part, once the one before is stored.
void S3Upload::send_part() {
  if (id_.empty()) id_ = client_->begin_upload(key_);
  wait_for_part();
  if (parts_.size() == kMostParts)
    throw Error(Code::kUnimplemented, "it is larger than " +
                                          std::to_string(kMostParts * (kUploadPart >> 20U)) +
                                          " MiB, the largest object that Cairn uploads");
  filling_.swap(sending_);
  filling_.clear();
  sent_ = std::async(std::launch::async,
                     [this, number = parts_.size() + 1, cancellation = current_cancellation()] {
                       const CancellationScope scope(cancellation);
                       return client_->put_part(key_, id_, number, sending_);
                     });
}

void S3Upload::wait_for_part() {
  if (sent_.valid()) parts_.push_back(sent_.get());
}

void S3Upload::commit() {
  check_open("committed twice");
  with_context([&] { return name_; },
               [&] {
                 const ByteView rest = filling_;
                 if (id_.empty()) {
                   (void)client_->put({.key = key_, .parts = {&rest, 1}});
                 } else {
                   send_part();
                   wait_for_part();
                   client_->complete(key_, id_, parts_, size_);
                 }
               });
  is_committed_ = true;
  filling_ = {};
  sending_ = {};
}

// The store charges for the parts of an upload until it is aborted. `cairn clean` finds those that
// this could not reach.
void S3Upload::abort() noexcept {
  try {
    if (sent_.valid()) sent_.wait();
    if (id_.empty()) return;
    const CancellationScope scope{Cancellation()};
    client_->abort(key_, id_);
  } catch (const std::exception&) {
  }
}

}  // namespace cairn::inline v0::object

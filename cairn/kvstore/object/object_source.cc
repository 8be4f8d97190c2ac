// object_source.cc -- checks ranges, and answers small reads from the beginning that is kept.
#include <cairn/kvstore/object/object_source.h>

#include <cairn/kvstore/range.h>

#include <algorithm>
#include <utility>

namespace cairn::inline v0::object {
namespace {

std::uint64_t bytes_of(std::span<const MutableByteView> parts) {
  std::uint64_t bytes = 0;
  for (const MutableByteView part : parts) bytes += part.size();
  return bytes;
}

}  // namespace

ObjectSource::ObjectSource(StoredValue value, std::string where, FetchFn fetch, Bytes beginning)
    : value_(std::move(value)),
      where_(std::move(where)),
      fetch_(std::move(fetch)),
      given_(beginning.size()),
      beginning_(std::make_shared<const Bytes>(std::move(beginning))) {}

void ObjectSource::read_into(std::uint64_t offset, MutableByteView out) const {
  read_scatter(offset, {&out, 1});
}

void ObjectSource::read_scatter(std::uint64_t offset, std::span<const MutableByteView> out) const {
  with_context([&] { return where_; },
               [&] {
                 const std::uint64_t length = bytes_of(out);
                 if (length_in({.offset = offset, .length = length}, value_.size) == 0) return;
                 if (const BytesPtr kept = beginning_up_to(offset + length))
                   scatter(ByteView(*kept).subspan(offset), out);
                 else
                   fetch_(offset, out, value_.version);
               });
}

// Null: no beginning of that length is kept.
ObjectSource::BytesPtr ObjectSource::beginning_up_to(std::uint64_t end) const {
  if (end > std::max(kKeptBeginning, given_)) return nullptr;
  const std::scoped_lock lock(mutex_);
  if (end <= beginning_->size()) return beginning_;
  Bytes bytes(std::min(kKeptBeginning, value_.size));
  const MutableByteView part = bytes;
  fetch_(0, {&part, 1}, value_.version);
  beginning_ = std::make_shared<const Bytes>(std::move(bytes));
  return beginning_;
}

RangeProgress::RangeProgress(std::uint64_t offset, std::span<const MutableByteView> parts)
    : offset_(offset), length_(bytes_of(parts)), rest_(parts.begin(), parts.end()) {}

// A try that failed after its last byte is repeated for that byte: a request needs a range.
void RangeProgress::drop_filled() {
  filled_ = std::min(filled_, length_ - 1);
  offset_ += filled_;
  length_ -= filled_;
  while (filled_ != 0) {
    MutableByteView& part = rest_.front();
    const auto count = std::min<std::uint64_t>(filled_, part.size());
    part = part.data() == nullptr ? MutableByteView(part.data(), part.size() - count)
                                  : part.subspan(count);
    filled_ -= count;
    if (part.empty()) rest_.erase(rest_.begin());
  }
}

void RangeProgress::prepare(HttpRequest& request) {
  drop_filled();
  request.headers.add(
      "Range", "bytes=" + std::to_string(offset_) + "-" + std::to_string(offset_ + length_ - 1));
  request.into = rest_;
  request.filled = &filled_;
}

}  // namespace cairn::inline v0::object

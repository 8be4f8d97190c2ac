// part_queue.cc -- gives each part a thread, which mostly waits for the store.
#include <cairn/kvstore/object/s3/part_queue.h>

#include <cairn/base/cancellation.h>

#include <algorithm>
#include <system_error>
#include <utility>

namespace cairn::inline v0::object {

PartQueue::~PartQueue() {
  stop_.request_stop();
  for (Slot& slot : slots_)
    if (slot.sent.valid()) slot.sent.wait();
}

// Waits until fewer than `most` parts are on their way.
PartQueue::Slot& PartQueue::idle_slot(std::size_t most) {
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [&] { return error_ || under_way_ < most; });
  if (error_) std::rethrow_exception(error_);
  auto found = std::ranges::find_if(slots_, [](const Slot& slot) { return slot.is_idle; });
  if (found == slots_.end()) found = slots_.emplace(slots_.end());
  found->is_idle = false;
  ++under_way_;
  parts_.emplace_back();
  return *found;
}

void PartQueue::send(RawBytes& bytes, std::size_t most) {
  Slot& slot = idle_slot(most);
  slot.bytes.swap(bytes);
  bytes.clear();
  const std::size_t number = ++count_;
  const auto work = [this, &slot, number,
                     cancellation = current_cancellation().or_by(stop_.get_token())] {
    const CancellationScope scope(cancellation);
    run(slot, number);
  };
  try {
    slot.sent = std::async(std::launch::async, work);
  } catch (const std::system_error&) {  // no more threads
    work();
  }
}

void PartQueue::run(Slot& slot, std::size_t number) noexcept {
  S3Part part;
  std::exception_ptr error;
  try {
    part = send_(number, slot.bytes);
  } catch (...) {
    error = std::current_exception();
  }
  {
    const std::scoped_lock lock(mutex_);
    parts_[number - 1] = std::move(part);
    if (error && !error_) error_ = error;
    slot.is_idle = true;
    --under_way_;
  }
  ended_.notify_one();
  if (error) stop_.request_stop();  // the other parts are of no use any more
}

std::vector<S3Part> PartQueue::finish() {
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [&] { return under_way_ == 0; });
  if (error_) std::rethrow_exception(error_);
  return parts_;
}

}  // namespace cairn::inline v0::object

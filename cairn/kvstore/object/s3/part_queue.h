// part_queue.h -- PartQueue, the parts of one upload that are on their way, several at once.
#pragma once

#include <cairn/base/memory/raw_bytes.h>
#include <cairn/kvstore/object/s3/s3_client.h>

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <future>
#include <list>
#include <mutex>
#include <stop_token>
#include <vector>

namespace cairn::inline v0::object {

// Used by one thread, and sends from others.
class PartQueue {
 public:
  // Sends one part; numbers begin with 1. Is called by several threads at once.
  using Send = std::function<S3Part(std::size_t number, ByteView bytes)>;

  explicit PartQueue(Send send) : send_(std::move(send)) {}
  PartQueue(const PartQueue&) = delete;
  PartQueue& operator=(const PartQueue&) = delete;
  // Stops the parts that are on their way, and waits for them.
  ~PartQueue();

  // Starts to send the next part. Waits while `most` parts are on their way. Leaves `bytes` empty,
  // with memory for the part after it. Throws the error of an earlier part.
  void send(RawBytes& bytes, std::size_t most);
  // Waits for all parts, and returns them in their order. Throws the error of any of them.
  std::vector<S3Part> finish();
  // The parts that were given to send().
  [[nodiscard]] std::size_t count() const { return count_; }

 private:
  struct Slot {
    RawBytes bytes = {};
    std::future<void> sent = {};
    bool is_idle = true;  // guarded by mutex_
  };

  Slot& idle_slot(std::size_t most);
  void run(Slot& slot, std::size_t number) noexcept;

  const Send send_;
  std::stop_source stop_;
  std::size_t count_ = 0;
  std::list<Slot> slots_;
  std::mutex mutex_;
  std::condition_variable ended_;
  std::size_t under_way_ = 0;      // guarded by mutex_, as the members below
  std::vector<S3Part> parts_;      // in their order; those on their way are empty
  std::exception_ptr error_ = {};  // the first one
};

}  // namespace cairn::inline v0::object

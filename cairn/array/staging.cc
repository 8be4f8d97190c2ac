// staging.cc -- keeps buffers for the next save.
#include <cairn/array/staging.h>

#include <algorithm>
#include <new>
#include <utility>

namespace cairn::inline v0 {

std::shared_ptr<Buffer> StagingPool::take(std::size_t size) {
  // A buffer that is much too large would keep memory in use that nobody needs.
  const auto fits = [&](const Buffer& buffer) {
    return buffer.size() >= size && buffer.size() / 2 <= size;
  };
  Buffer buffer;
  std::vector<Buffer> freed;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = std::ranges::find_if(kept_, fits);
    if (found != kept_.end()) {
      buffer = std::move(*found);
      kept_bytes_ -= buffer.size();
      kept_.erase(found);
    } else {
      freed.swap(kept_);
      kept_bytes_ = 0;
    }
  }
  freed.clear();  // before new memory is taken
  if (buffer.data() == nullptr) buffer = Buffer(size);
  return {new Buffer(std::move(buffer)), [pool = weak_from_this()](Buffer* used) {
            const std::unique_ptr<Buffer> owner(used);
            if (const auto to = pool.lock()) to->give_back(std::move(*used));
          }};
}

void StagingPool::give_back(Buffer buffer) noexcept {
  const std::scoped_lock lock(mutex_);
  const std::size_t size = buffer.size();
  if (size > most_ - kept_bytes_) return;
  try {
    kept_.push_back(std::move(buffer));
    kept_bytes_ += size;
  } catch (const std::bad_alloc&) {
    // The buffer is freed.
    return;
  }
}

void StagingPool::close() {
  const std::scoped_lock lock(mutex_);
  most_ = kept_bytes_ = 0;
  kept_.clear();
}

}  // namespace cairn::inline v0

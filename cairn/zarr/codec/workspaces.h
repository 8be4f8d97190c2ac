// workspaces.h -- scratch memory that tasks pass on to each other, so that the system provides its
// pages only once.
#pragma once

#include <cairn/zarr/codec/codec_chain.h>

#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace cairn::inline v0::zarr {

// The scratch memory of one task.
struct Workspace {
  Scratch encoded;
  Scratch decoded;
};

// A pool of workspaces. Safe to use from many threads.
class Workspaces {
 public:
  // Takes a workspace from the pool and returns it on destruction.
  class Loan {
   public:
    explicit Loan(Workspaces& owner) : owner_(&owner), space_(owner.take()) {}
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;
    ~Loan() { owner_->give_back(std::move(space_)); }
    Workspace& operator*() const { return *space_; }
    Workspace* operator->() const { return space_.get(); }

   private:
    Workspaces* owner_;
    std::unique_ptr<Workspace> space_;
  };

 private:
  // bytes of each buffer that the pool keeps between tasks; they are outside any budget
  static constexpr std::size_t kKept = std::size_t{2} << 20U;

  std::unique_ptr<Workspace> take() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) {
      idle_.reserve(++made_);  // so that give_back cannot fail
      return std::make_unique<Workspace>();
    }
    auto space = std::move(idle_.back());
    idle_.pop_back();
    return space;
  }
  void give_back(std::unique_ptr<Workspace> space) {
    space->encoded.trim(kKept);
    space->decoded.trim(kKept);
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(space));
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<Workspace>> idle_;
  std::size_t made_ = 0;
};

}  // namespace cairn::inline v0::zarr

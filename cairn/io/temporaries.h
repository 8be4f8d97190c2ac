// temporaries.h -- tracks the temporary files and directories of this process, so that a program
// can remove them when it is told to stop.
#pragma once

#include <functional>
#include <string>
#include <utility>

namespace cairn::inline v0 {

// Registers a temporary path for remove_temporaries() for the lifetime of the object.
class NotedTemporary {
 public:
  // kLast: a lock on the other temporaries, which is removed after them.
  enum class Order { kFirst, kLast };
  // Calls `make`, which creates the file or directory and returns whether it has. If `make` returns
  // false, the path is not registered. After remove_temporaries() has started, throws
  // Error(kUnavailable) without calling `make`, so that no temporary is created after the removal.
  NotedTemporary(std::string path, Order order, const std::function<bool()>& make);
  NotedTemporary(const NotedTemporary&) = delete;
  NotedTemporary& operator=(const NotedTemporary&) = delete;
  ~NotedTemporary();

  // The result of `make`.
  [[nodiscard]] bool made() const { return made_; }

 private:
  std::pair<Order, std::string> entry_;
  bool made_ = false;
};

// remove_temporaries() waits while an object of this class exists. Put one around a commit, so that
// the commit is either complete or not begun.
class CommitSection {
 public:
  CommitSection();
  CommitSection(const CommitSection&) = delete;
  CommitSection& operator=(const CommitSection&) = delete;
  ~CommitSection();
};

// Removes all registered temporaries. After that no temporary can be created and no commit can
// begin. Other threads may still be writing to the temporaries. Call it only in a program that ends
// right after.
void remove_temporaries() noexcept;

}  // namespace cairn::inline v0

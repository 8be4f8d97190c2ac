// temporaries.h -- the temporary files and directories of this process, so that a program that is
// told to stop can remove them before it ends.
#pragma once

#include <functional>
#include <string>
#include <utility>

namespace cairn {

// Keeps a path among those that remove_temporaries() removes, as long as it exists.
class NotedTemporary {
 public:
  // kLast: a lock on the others, which is removed after them.
  enum class Order { kFirst, kLast };
  // Calls `make`, which makes the file or directory and returns whether it has; if not, the path is
  // not kept. Throws Error(kUnavailable), without calling it, once they are being removed: so none
  // is made behind the removal.
  NotedTemporary(std::string path, Order order, const std::function<bool()>& make);
  NotedTemporary(const NotedTemporary&) = delete;
  NotedTemporary& operator=(const NotedTemporary&) = delete;
  ~NotedTemporary();

  [[nodiscard]] bool made() const { return made_; }

 private:
  std::pair<Order, std::string> entry_;
  bool made_ = false;
};

// While one exists, remove_temporaries() waits: around a commit, so that it is done or has not
// begun.
class CommitSection {
 public:
  CommitSection();
  CommitSection(const CommitSection&) = delete;
  CommitSection& operator=(const CommitSection&) = delete;
  ~CommitSection();
};

// Removes them all; from then on none can be made and no commit begun. Other threads may still be
// writing to them. For a program that ends right after.
void remove_temporaries() noexcept;

}  // namespace cairn

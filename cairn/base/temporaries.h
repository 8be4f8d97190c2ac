// temporaries.h -- the temporary files and directories of this process, so that a program that is told
// to stop can remove them before it ends.
#pragma once

#include <string>
#include <utility>

namespace cairn {

// Keeps a path among those that remove_temporaries() removes, as long as it exists. Throws
// Error(kUnavailable) once they are being removed: none may be made then.
class NotedTemporary {
 public:
  // kLast: a lock on the others, which is removed after them.
  enum class Order { kFirst, kLast };
  explicit NotedTemporary(std::string path, Order order = Order::kFirst);
  NotedTemporary(const NotedTemporary&) = delete;
  NotedTemporary& operator=(const NotedTemporary&) = delete;
  ~NotedTemporary();

 private:
  std::pair<Order, std::string> entry_;
};

// While one exists, remove_temporaries() waits: around a commit, so that it is done or has not begun.
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

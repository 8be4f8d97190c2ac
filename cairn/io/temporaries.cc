// temporaries.cc -- the process-wide registry of temporary paths.
#include <cairn/io/temporaries.h>

#include <cairn/error.h>
#include <cairn/io/directory.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <thread>
#include <utility>

namespace cairn::inline v0 {
namespace {

struct Registry {
  // held shared while a temporary is created, so that the removal can wait
  std::shared_mutex making;
  std::mutex mutex;  // guards the following members
  std::condition_variable no_commits;
  std::multiset<std::pair<NotedTemporary::Order, std::string>> paths;
  int commits = 0;
  bool stopped = false;
};

// Never destroyed, because threads may still use it when the program ends.
Registry& registry() {
  static auto* const kRegistry = new Registry;
  return *kRegistry;
}

// A commit that has begun runs to its end.
void check_running(const Registry& r) {
  if (r.stopped && r.commits == 0)
    throw Error(Code::kUnavailable, "a signal told the program to stop");
}

}  // namespace

NotedTemporary::NotedTemporary(std::string path, Order order, const std::function<bool()>& make)
    : entry_(order, std::move(path)) {
  Registry& r = registry();
  const std::shared_lock making(r.making);
  {
    const std::lock_guard lock(r.mutex);
    check_running(r);
  }
  made_ = make();
  if (!made_) return;
  const std::lock_guard lock(r.mutex);
  r.paths.insert(entry_);
}

NotedTemporary::~NotedTemporary() {
  if (!made_) return;
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  if (const auto it = r.paths.find(entry_); it != r.paths.end()) r.paths.erase(it);
}

CommitSection::CommitSection() {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  check_running(r);
  ++r.commits;
}

CommitSection::~CommitSection() {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  if (--r.commits == 0) r.no_commits.notify_all();
}

void remove_temporaries() noexcept {
  // A file may be created in a directory while the directory is being removed, by threads that
  // notice only at their next file that the program ends.
  constexpr int kAttempts = 100;
  constexpr std::chrono::milliseconds kPause{5};
  Registry& r = registry();
  {
    std::unique_lock lock(r.mutex);
    r.stopped = true;
    r.no_commits.wait(lock, [&] { return r.commits == 0; });
  }
  const std::unique_lock making(r.making);
  const std::lock_guard lock(r.mutex);
  for (const auto& entry : r.paths)
    for (int i = 0; i < kAttempts && !try_call([&] { return remove_tree(entry.second), true; });
         ++i)
      std::this_thread::sleep_for(kPause);
}

}  // namespace cairn::inline v0

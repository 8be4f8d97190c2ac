// curl_handles.h -- CurlHandles, the handles of libcurl that a transport reuses: each keeps its
// connections.
#pragma once

#include <cairn/kvstore/object/transport/curl_api.h>

#include <sys/types.h>

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <vector>

namespace cairn::inline v0::object {

// Safe to use from many threads. Belongs to the process that made it: the connections and the state
// of TLS of a forked process would be those of its parent.
class CurlHandles {
 public:
  explicit CurlHandles(std::size_t most);
  CurlHandles(const CurlHandles&) = delete;
  CurlHandles& operator=(const CurlHandles&) = delete;
  // A forked process leaks its copies: closing them would end the parent's connections.
  ~CurlHandles();

  // One handle for one exchange.
  class Lease {
   public:
    explicit Lease(CurlHandles& handles) : handles_(handles), handle_(handles.take()) {}
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    ~Lease() { handles_.give_back(handle_); }
    [[nodiscard]] CurlHandle* get() const { return handle_; }

   private:
    CurlHandles& handles_;
    CurlHandle* handle_;
  };

 private:
  // The handle that was used last, because its connection is most likely still open. Waits while
  // all are in use. Throws cancelled, and failed_precondition in a forked process.
  CurlHandle* take();
  void give_back(CurlHandle* handle);
  void check_process() const;
  void wait(std::unique_lock<std::mutex>& lock);

  const CurlApi& api_;
  pid_t process_;
  std::size_t most_;
  std::mutex mutex_;
  std::condition_variable returned_;
  std::size_t used_ = 0;
  std::vector<CurlHandle*> idle_;
};

}  // namespace cairn::inline v0::object

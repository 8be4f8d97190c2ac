// client_cache.h -- what stores with equal options share while one of them is open: connections,
// credentials, and what is known of the endpoint.
#pragma once

#include <cairn/storage/store_options.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace cairn::inline v0::object {

// The part of ClientCache's options that is about connections and credentials.
inline std::vector<std::string> connection_key(const StoreOptions& options) {
  const StoreCredentials credentials = options.credentials.value_or(StoreCredentials());
  return {options.ca_file,
          credentials.access_key,
          credentials.secret_key,
          credentials.session_token,
          credentials.bearer_token,
          std::to_string(options.credentials.has_value()),
          std::to_string(options.anonymous),
          std::to_string(options.verify_tls),
          std::to_string(options.max_connections),
          std::to_string(options.connect_timeout.count()),
          std::to_string(options.stall_timeout.count()),
          std::to_string(options.retry_time.count())};
}

// Safe to use from many threads.
template <class Client>
class ClientCache {
 public:
  // The client of these options that is in use, or the one that make() returns. A forked process
  // shares nothing with its parent, because connections cannot be shared.
  template <class Make>
  std::shared_ptr<Client> find_or_make(std::vector<std::string> options, Make make) {
    options.push_back(std::to_string(getpid()));
    const std::scoped_lock lock(mutex_);
    std::erase_if(clients_, [](const auto& each) { return each.second.expired(); });
    std::weak_ptr<Client>& known = clients_[std::move(options)];
    auto client = known.lock();
    if (!client) known = client = make();
    return client;
  }

 private:
  std::mutex mutex_;
  std::map<std::vector<std::string>, std::weak_ptr<Client>> clients_;
};

}  // namespace cairn::inline v0::object

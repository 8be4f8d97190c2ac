// forwarding_coordinator.h -- a coordinator that forwards every call; tests derive from it to
// change some.
#pragma once

#include <cairn/distributed.h>

#include <memory>
#include <utility>
#include <vector>

namespace cairn::testing {

class ForwardingCoordinator : public Coordinator {
 public:
  explicit ForwardingCoordinator(std::shared_ptr<Coordinator> of) : of_(std::move(of)) {}
  [[nodiscard]] std::size_t process_index() const override { return of_->process_index(); }
  [[nodiscard]] std::size_t process_count() const override { return of_->process_count(); }
  [[nodiscard]] std::uint64_t max_value_bytes() const override { return of_->max_value_bytes(); }
  void barrier(std::string_view name, Timeout timeout) override { of_->barrier(name, timeout); }
  Bytes broadcast(std::string_view name, ByteView value, std::size_t root,
                  Timeout timeout) override {
    return of_->broadcast(name, value, root, timeout);
  }
  std::vector<Bytes> all_gather(std::string_view name, ByteView value, Timeout timeout) override {
    return of_->all_gather(name, value, timeout);
  }
  std::vector<Bytes> exchange(std::string_view name, ByteView value, const Delivery& between,
                              Timeout timeout) override {
    return of_->exchange(name, value, between, timeout);
  }
  void abort(std::string_view name, std::string_view why) noexcept override {
    of_->abort(name, why);
  }

 private:
  std::shared_ptr<Coordinator> of_;
};

}  // namespace cairn::testing

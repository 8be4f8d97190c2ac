// parallel_parts_test.cc -- the parts of an upload are sent at the same time.
#include <cairn/base/cancellation.h>
#include <cairn/kvstore/object/s3/s3_upload.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <variant>

#include "tests/kvstore/object/support/s3_fixture.h"
#include "tests/support/matchers.h"

namespace cairn::object {
namespace {

using cairn::testing::FailsWith;
using testing::FakeS3;
using testing::make_s3_store;
using testing::S3Fault;

constexpr std::size_t kPart = 100;

std::size_t part_number(const HttpRequest& request) {
  const std::size_t at = request.url.find("partNumber=");
  return at == std::string::npos ? 0 : std::stoul(request.url.substr(at + 11));
}

// Passes requests on, and counts the parts that are on their way.
class PartTransport final : public HttpTransport {
 public:
  explicit PartTransport(std::shared_ptr<FakeS3> server) : server_(std::move(server)) {}

  // Called with each part before it is passed on, while the other parts come.
  std::function<void(std::size_t number)> before_part = [](std::size_t) {};

  std::variant<HttpResponse, TransportError> send(const HttpRequest& request,
                                                  const HttpLimits& limits) override {
    const std::size_t number = part_number(request);
    if (number == 0) return server_->send(request, limits);
    change(1);
    try {
      before_part(number);
      auto outcome = server_->send(request, limits);
      change(-1);
      return outcome;
    } catch (...) {
      change(-1);
      throw;
    }
  }
  // Waits until `count` parts have been on their way at once.
  void wait_for(int count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(60), [&] { return most_ >= count; }))
        << most_ << " parts at once";
  }
  // Waits until somebody stops the work of this thread.
  static void wait_for_stop() {
    for (;;) {
      throw_if_cancelled();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  int most_at_once() const {
    const std::scoped_lock lock(mutex_);
    return most_;
  }

 private:
  void change(int by) {
    {
      const std::scoped_lock lock(mutex_);
      now_ += by;
      most_ = std::max(most_, now_);
    }
    changed_.notify_all();
  }

  std::shared_ptr<FakeS3> server_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int now_ = 0;
  int most_ = 0;
};

class ParallelParts : public ::testing::Test {
 protected:
  ParallelParts() { server_->least_part = kPart; }

  std::unique_ptr<S3Upload> begin(std::uint64_t memory) {
    auto upload = std::make_unique<S3Upload>(testing::make_client(testing::connect_to(parts_)), "k",
                                             "s3://bucket/k", kPart);
    upload->limit_memory(memory);
    return upload;
  }
  // A value of which no two parts are equal.
  static Bytes value_of(std::size_t size) {
    Bytes value(size);
    for (std::size_t i = 0; i < size; ++i) value[i] = static_cast<std::byte>(i / kPart + i % 7);
    return value;
  }
  static void append(S3Upload& upload, ByteView value) {
    for (std::size_t at = 0; at < value.size(); at += 70) {
      const ByteView piece = value.subspan(at, std::min<std::size_t>(70, value.size() - at));
      upload.append({&piece, 1});
    }
  }
  void send(std::size_t size, std::uint64_t memory) {
    const auto upload = begin(memory);
    append(*upload, value_of(size));
    upload->commit();
  }
  [[nodiscard]] std::optional<Bytes> stored() const {
    return make_s3_store(server_)->read("k", {});
  }

  std::shared_ptr<FakeS3> server_ = std::make_shared<FakeS3>();
  std::shared_ptr<PartTransport> parts_ = std::make_shared<PartTransport>(server_);
};

TEST_F(ParallelParts, AsManyGoTogetherAsTheMemoryHolds) {
  for (const int held : {2, 3, 8}) {
    parts_ = std::make_shared<PartTransport>(server_);
    parts_->before_part = [&, held](std::size_t) { parts_->wait_for(held - 1); };
    send(40 * kPart + 1, static_cast<std::uint64_t>(held) * kPart);
    EXPECT_EQ(parts_->most_at_once(), held - 1) << "and one that fills";
    EXPECT_EQ(stored(), value_of(40 * kPart + 1));
  }
}

TEST_F(ParallelParts, AtLeastOneAndAtMostSixteenGoTogether) {
  send(10 * kPart, 0);
  EXPECT_EQ(parts_->most_at_once(), 1);
  parts_->before_part = [&](std::size_t) { parts_->wait_for(16); };
  send(40 * kPart, std::uint64_t{1} << 60U);
  EXPECT_EQ(parts_->most_at_once(), 16);
}

TEST_F(ParallelParts, KeepTheirOrderWhenTheFirstEndsLast) {
  std::atomic<int> others{0};
  parts_->before_part = [&](std::size_t number) {
    if (number != 1) {
      ++others;
      return;
    }
    for (int i = 0; others < 6 && i < 60'000; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(others, 6) << "they need not wait for the first one";
  };
  send(7 * kPart, 3 * kPart);
  EXPECT_EQ(stored(), value_of(7 * kPart));
}

TEST_F(ParallelParts, AnErrorOfAnyEndsTheUpload) {
  constexpr std::size_t kParts = 6;
  for (std::size_t bad = 1; bad <= kParts; ++bad) {
    server_->fault = [bad](std::size_t, const HttpRequest& request) -> std::optional<S3Fault> {
      if (part_number(request) != bad) return std::nullopt;
      return S3Fault{testing::answer(403, testing::s3_error("AccessDenied"))};
    };
    // The others only end if somebody stops them.
    parts_->before_part = [bad](std::size_t number) {
      if (number > bad) PartTransport::wait_for_stop();
    };
    EXPECT_THAT([&] { send(kParts * kPart, 4 * kPart); }, FailsWith(Code::kIo, "s3://bucket/k: "))
        << bad;
    server_->fault = nullptr;
    EXPECT_EQ(server_->open_uploads(), 0U) << bad;
    EXPECT_EQ(stored(), std::nullopt) << bad;
  }
}

TEST_F(ParallelParts, AFailedUploadTakesNoMore) {
  server_->fault = [](std::size_t, const HttpRequest& request) -> std::optional<S3Fault> {
    if (part_number(request) != 1) return std::nullopt;
    return S3Fault{testing::answer(403, testing::s3_error("AccessDenied"))};
  };
  const auto upload = begin(2 * kPart);
  EXPECT_THAT([&] { append(*upload, value_of(5 * kPart)); }, FailsWith(Code::kIo, "AccessDenied"));
  EXPECT_THAT([&] { append(*upload, value_of(5 * kPart)); }, FailsWith(Code::kIo, "AccessDenied"));
  EXPECT_THAT([&] { upload->commit(); }, FailsWith(Code::kIo, "AccessDenied"));
}

TEST_F(ParallelParts, NoneIsSentIfTheUploadDoesNotBegin) {
  server_->fault = [](std::size_t, const HttpRequest&) -> std::optional<S3Fault> {
    return S3Fault{testing::answer(403, testing::s3_error("AccessDenied"))};
  };
  EXPECT_THAT([&] { send(5 * kPart, 4 * kPart); }, FailsWith(Code::kIo, "s3://bucket/k: "));
  EXPECT_EQ(parts_->most_at_once(), 0);
  EXPECT_TRUE(server_->log().empty());
}

TEST_F(ParallelParts, AreStoppedAndForgottenWithoutACommit) {
  parts_->before_part = [](std::size_t) { PartTransport::wait_for_stop(); };
  auto upload = begin(4 * kPart);
  append(*upload, value_of(3 * kPart + 1));
  parts_->wait_for(3);
  EXPECT_EQ(server_->open_uploads(), 1U);
  upload.reset();
  EXPECT_EQ(server_->open_uploads(), 0U);
  EXPECT_EQ(server_->log().back(), "DELETE bucket/k") << "after all parts have ended";
}

TEST_F(ParallelParts, ACancellationEndsThem) {
  for (const std::size_t parts : {3, 9}) {  // the last one waits for a place in append()
    parts_ = std::make_shared<PartTransport>(server_);
    parts_->before_part = [](std::size_t) { PartTransport::wait_for_stop(); };
    std::stop_source stop;
    const CancellationScope scope{Cancellation(stop.get_token())};
    std::jthread stopper([&] {
      parts_->wait_for(3);
      stop.request_stop();
    });
    EXPECT_THAT([&] { send(parts * kPart + 1, 4 * kPart); },
                FailsWith(Code::kCancelled, "asked to stop"));
    EXPECT_EQ(server_->open_uploads(), 0U);
  }
}

}  // namespace
}  // namespace cairn::object

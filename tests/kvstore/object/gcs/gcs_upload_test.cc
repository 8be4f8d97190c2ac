#include <cairn/base/cancellation.h>
#include <cairn/base/executor.h>
#include <cairn/kvstore/object/gcs/gcs_store.h>
#include <cairn/kvstore/object/gcs/gcs_upload.h>
#include <gmock/gmock.h>

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "tests/kvstore/object/support/fake_gcs.h"
#include "tests/support/matchers.h"

namespace cairn::object {
namespace {

using cairn::testing::FailsWith;
using ::testing::ElementsAre;
using testing::FakeGcs;
using testing::GcsFault;

constexpr std::size_t kPiece = 2 * FakeGcs::kPiece;

// Two pieces and a bit, of which no two bytes at a distance of a piece are equal.
const std::string& large_value() {
  static const std::string value = [] {
    std::string text(2 * kPiece + 1000, '\0');
    for (std::size_t i = 0; i < text.size(); ++i)
      text[i] = static_cast<char>((i * 31 + i / kPiece) & 0xffU);
    return text;
  }();
  return value;
}

class GcsUpload : public ::testing::Test {
 protected:
  void append(std::string_view text) {
    const ByteView parts[] = {as_bytes(text)};
    appender_->append(parts);
  }
  void append_and_commit() {
    append(large_value());
    appender_->commit();
  }
  void fail_request(std::size_t n, GcsFault fault) {
    fake_->fault = [=](std::size_t at) { return at == n ? fault : GcsFault::kNone; };
  }

  static std::unique_ptr<Appender> appender_to(const std::shared_ptr<FakeGcs>& fake) {
    return make_gcs_appender(testing::client_of(fake), "d/x", "gs://bkt/d/x", kPiece);
  }

  std::shared_ptr<FakeGcs> fake_ = std::make_shared<FakeGcs>();
  std::unique_ptr<Appender> appender_ = appender_to(fake_);
};

TEST_F(GcsUpload, ASmallObjectIsOneRequest) {
  append("0123");
  append("4567");
  appender_->commit();
  EXPECT_THAT(fake_->log, ElementsAre("POST multipart d/x"));
  EXPECT_EQ(fake_->bytes_of("d/x"), "01234567");
}

TEST_F(GcsUpload, AFullPieceIsOneRequest) {
  append(large_value().substr(0, kPiece));
  appender_->commit();
  EXPECT_EQ(fake_->requests(), 1U);
  EXPECT_EQ(fake_->bytes_of("d/x")->size(), kPiece);
}

TEST_F(GcsUpload, ALargeObjectIsSentInPieces) {
  append(large_value());
  EXPECT_EQ(fake_->bytes_of("d/x"), std::nullopt) << "before its commit";
  appender_->commit();
  EXPECT_EQ(appender_->size(), large_value().size());
  EXPECT_EQ(fake_->bytes_of("d/x"), large_value());
  EXPECT_THAT(fake_->log, ElementsAre("POST resumable d/x", "PUT session bytes 0-524287/*",
                                      "PUT session bytes 524288-1048575/*",
                                      "PUT session bytes 1048576-1049575/1049576"));
}

TEST_F(GcsUpload, PiecesOfAStoreHave16MiB) {
  appender_ = make_gcs_store(testing::client_of(fake_))->append("d/x");
  append(std::string(kUploadPart, 'x'));
  append("y");
  appender_->commit();
  EXPECT_THAT(fake_->log, ElementsAre("POST resumable d/x", "PUT session bytes 0-16777215/*",
                                      "PUT session bytes 16777216-16777216/16777217"));
}

// The pieces of one object go one after another, so a save that waits for one writes others.
TEST_F(GcsUpload, ThatWaitsLetsOthersBegin) {
  constexpr int kAtOnce = 8;
  std::mutex mutex;
  std::condition_variable came;
  int waiting = 0;
  fake_->before = [&](std::size_t, FakeGcs&) {
    std::unique_lock lock(mutex);
    if (++waiting == kAtOnce) came.notify_all();
    EXPECT_TRUE(came.wait_for(lock, std::chrono::seconds(60), [&] { return waiting >= kAtOnce; }));
  };
  Executor two(2);
  two.for_each(kAtOnce, [&](std::size_t i) {
    const std::string name = "d/" + std::to_string(i);
    const auto appender = make_gcs_appender(testing::client_of(fake_), name, name, kPiece);
    const ByteView parts[] = {as_bytes(large_value())};
    appender->append(parts);
    appender->commit();
  });
  for (int i = 0; i < kAtOnce; ++i)
    EXPECT_EQ(fake_->bytes_of("d/" + std::to_string(i)), large_value());
}

TEST_F(GcsUpload, WithoutCommitTheSessionEnds) {
  append(large_value());
  appender_ = nullptr;
  EXPECT_EQ(fake_->count("DELETE session"), 1U);
  EXPECT_EQ(fake_->open_sessions(), 0U);
  EXPECT_EQ(fake_->bytes_of("d/x"), std::nullopt);
}

// Of a session with four requests each one has each fault. After a lost answer the service is asked
// how far it is, and after that it gets what it does not have.
TEST_F(GcsUpload, EveryFaultOfEveryRequestIsMended) {
  for (const bool forgets : {false, true})
    for (std::size_t request = 0; request < 4; ++request)
      for (const GcsFault fault : {GcsFault::kRefused, GcsFault::kDropped, GcsFault::kLost}) {
        fake_ = std::make_shared<FakeGcs>();
        fake_->forgets_finished = forgets;
        fail_request(request, fault);
        appender_ = appender_to(fake_);
        append(large_value());
        appender_->commit();
        EXPECT_TRUE(fake_->bytes_of("d/x") == large_value())
            << request << " " << static_cast<int>(fault) << " " << forgets;
      }
}

TEST_F(GcsUpload, APieceThatIsStoredInPartIsContinued) {
  fake_->stores_at_most = FakeGcs::kPiece;
  append(large_value());
  appender_->commit();
  EXPECT_TRUE(fake_->bytes_of("d/x") == large_value());
}

TEST_F(GcsUpload, AServiceThatTakesNothingIsAnError) {
  fake_->stores_at_most = 0;
  append(large_value().substr(0, kPiece + 1));
  EXPECT_THAT([&] { appender_->commit(); }, FailsWith(Code::kIo, "does not take"));
  EXPECT_THAT([&] { appender_->commit(); }, FailsWith(Code::kIo, "does not take")) << "again";
  appender_ = nullptr;
  EXPECT_EQ(fake_->bytes_of("d/x"), std::nullopt);
}

// As an emulator does: half an object must not stay.
TEST_F(GcsUpload, AServiceThatFinishesTooEarlyIsAnError) {
  fake_->status_finishes = true;
  fail_request(1, GcsFault::kLost);
  EXPECT_THAT([&] { append_and_commit(); }, FailsWith(Code::kIo, "before its end"));
  EXPECT_EQ(fake_->bytes_of("d/x"), std::nullopt);
}

TEST_F(GcsUpload, AnEndedSessionIsAnError) {
  fake_->before = [](std::size_t request, FakeGcs& fake) {
    if (request == 2) fake.end_sessions();  // after the beginning and one piece
  };
  EXPECT_THAT([&] { append_and_commit(); }, FailsWith(Code::kIo, "session has ended"));
}

TEST_F(GcsUpload, ADeadServiceIsAnErrorAndTheDestructorEnds) {
  fake_->fault = [](std::size_t at) { return at < 2 ? GcsFault::kNone : GcsFault::kDropped; };
  EXPECT_THAT([&] { append_and_commit(); }, FailsWith(Code::kIo, "gs://bkt/d/x"));
  appender_ = nullptr;
}

// The thread that sends a piece stops with the caller, and the session still ends.
TEST_F(GcsUpload, ACancelledUploadLeavesNothing) {
  std::stop_source stop;
  {
    const CancellationScope scope((Cancellation(stop.get_token())));
    append(large_value().substr(0, kPiece + 1));
    stop.request_stop();
    EXPECT_THAT([&] { append_and_commit(); }, FailsWith(Code::kCancelled, "gs://bkt/d/x"));
    appender_ = nullptr;
  }
  EXPECT_EQ(fake_->open_sessions(), 0U);
  EXPECT_EQ(fake_->bytes_of("d/x"), std::nullopt);
}

TEST_F(GcsUpload, ADamagedUploadIsRemoved) {
  fake_->change_answer = [](HttpResponse& response) {
    std::string body(as_text(response.body));
    const std::size_t crc = body.find("\"crc32c\":\"");
    if (crc == std::string::npos) return;
    body[crc + 10] = body[crc + 10] == 'A' ? 'B' : 'A';
    response.body.assign(as_bytes(body).begin(), as_bytes(body).end());
  };
  EXPECT_THAT([&] { append_and_commit(); }, FailsWith(Code::kDataLoss, "crc32c"));
  EXPECT_EQ(fake_->bytes_of("d/x"), std::nullopt);
}

TEST_F(GcsUpload, TheSessionsAddressStaysAtTheEndpoint) {
  fake_->change_answer = [](HttpResponse& response) {
    if (!response.headers.find("location")) return;
    response.headers = {};
    response.headers.add("Location", "nowhere");
  };
  EXPECT_THAT([&] { append_and_commit(); }, FailsWith(Code::kIo, "names no session"));
}

}  // namespace
}  // namespace cairn::object

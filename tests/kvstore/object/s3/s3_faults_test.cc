// s3_faults_test.cc -- requests that fail, before or after the store has acted, and answers that
// are lost.
#include <cairn/io/tree/range_source.h>
#include <cairn/kvstore/object/s3/s3_upload.h>
#include <gmock/gmock.h>

#include <random>

#include "tests/kvstore/object/support/s3_fixture.h"
#include "tests/support/matchers.h"
#include "tests/support/seed.h"

namespace cairn::object {
namespace {

using cairn::testing::FailsWith;
using testing::FakeS3;
using testing::make_s3_store;
using testing::S3Fault;

const TransportError kLost{.delivery = Delivery::kMaybeSent, .why = "the connection broke"};

// Request `n` of the server ends so.
void fail_request(FakeS3& server, std::size_t n, const S3Fault& fault) {
  server.fault = [n, fault](std::size_t each, const HttpRequest&) {
    return each == n ? std::optional(fault) : std::nullopt;
  };
}

TEST(LostReplies, OfACreateAreFoundByTheIdOfTheValue) {
  const auto server = std::make_shared<FakeS3>();
  fail_request(*server, 1, {kLost, true});
  const auto store = make_s3_store(server);
  EXPECT_TRUE(store->replace_if("k", std::nullopt, as_bytes("v"))) << "it was stored";
  EXPECT_FALSE(store->replace_if("k", std::nullopt, as_bytes("v")))
      << "equal bytes, another writer";
}

TEST(LostReplies, OfAReplaceAreFoundByTheIdOfTheValue) {
  for (const auto kind : {FakeS3::Kind::kStrict, FakeS3::Kind::kLax}) {
    // Requests: GET, PUT (strict: refused, HEAD, PUT). Each of them in turn is lost.
    for (std::size_t n = 1; n <= 4; ++n)
      for (const bool happens : {false, true}) {
        const auto server = std::make_shared<FakeS3>(kind);
        server->put("k", "old");
        fail_request(*server, n, {kLost, happens});
        const auto store = make_s3_store(server);
        EXPECT_TRUE(store->replace_if("k", as_bytes("old"), as_bytes("new")))
            << "request " << n << ", " << happens;
        server->fault = nullptr;
        EXPECT_EQ(as_text(*store->read("k", {})), "new");
      }
  }
}

// Two writers of one key, with the other one's whole call in place of each lost request.
TEST(LostReplies, OfTwoRacingWritersExactlyOneWins) {
  for (const bool exists : {false, true})
    for (const auto kind : {FakeS3::Kind::kStrict, FakeS3::Kind::kLax})
      for (std::size_t n = 1; n <= 5; ++n)
        for (const bool happens : {false, true}) {
          const auto server = std::make_shared<FakeS3>(kind);
          if (exists) server->put("k", "old");
          const auto other = make_s3_store(server), store = make_s3_store(server);
          const auto expected = exists ? std::optional(as_bytes("old")) : std::nullopt;
          bool other_won = false, has_run = false;
          server->fault = [&](std::size_t each, const HttpRequest&) -> std::optional<S3Fault> {
            if (each < n || has_run) return std::nullopt;
            has_run = true;
            return S3Fault{kLost, happens};
          };
          bool has_raced = false;
          server->damage = [&](std::size_t, const HttpRequest&, HttpResponse&) {
            // after the lost request: the next one that is answered
            if (!has_run || has_raced) return;
            has_raced = true;
            other_won = other->replace_if("k", expected, as_bytes("same"));
          };
          const bool won = store->replace_if("k", expected, as_bytes("same"));
          if (!has_raced) continue;
          EXPECT_TRUE(won != other_won) << exists << " " << n << " " << happens << " " << won;
          server->damage = nullptr;
          EXPECT_EQ(as_text(*store->read("k", {})), "same");
        }
}

TEST(PinnedReads, GoOnWhereABodyBrokeOff) {
  const auto server = std::make_shared<FakeS3>();
  server->put("k", "0123456789");
  const auto source = make_s3_store(server)->open("k", "");
  std::vector<std::string> ranges;
  server->fault = [&](std::size_t, const HttpRequest& request) -> std::optional<S3Fault> {
    ranges.emplace_back(request.headers.find("range").value_or(""));
    if (ranges.size() > 1) return std::nullopt;
    for (std::size_t i = 0; i < 4; ++i) request.into[0][i] = static_cast<std::byte>('0' + i);
    *request.filled = 4;
    return S3Fault{TransportError{.delivery = Delivery::kAnswered, .received = 4, .why = "cut"}};
  };
  Bytes out(10);
  source->read_into(0, out);
  EXPECT_EQ(as_text(out), "0123456789");
  EXPECT_THAT(ranges, ::testing::ElementsAre("bytes=0-9", "bytes=4-9"));
}

constexpr std::size_t kPartOfThree = 100, kSize = 250;

// Three parts, in pieces.
void upload(const std::shared_ptr<FakeS3>& server, std::size_t size = kSize) {
  server->least_part = kPartOfThree;
  S3Upload upload(testing::make_client(testing::connect_to(server)), "k", "s3://bucket/k",
                  kPartOfThree);
  const Bytes piece(70, std::byte{'p'});
  for (std::size_t at = 0; at < size; at += piece.size()) {
    const ByteView part = ByteView(piece).first(std::min(piece.size(), size - at));
    upload.append({&part, 1});
  }
  upload.commit();
}

TEST(Uploads, SurviveAFaultAtEachRequest) {
  for (const auto kind : {FakeS3::Kind::kStrict, FakeS3::Kind::kLax})
    for (std::size_t n = 1; n <= 5; ++n)
      for (const S3Fault& fault :
           {S3Fault{kLost, true}, S3Fault{kLost, false}, S3Fault{testing::answer(503), false}}) {
        const auto server = std::make_shared<FakeS3>(kind);
        fail_request(*server, n, fault);
        const auto store = make_s3_store(server);
        upload(server);
        EXPECT_EQ(store->size("k"), kSize) << n;
        // A lost answer to the beginning leaves an upload that nobody knows; `clean` lists it.
        EXPECT_EQ(server->open_uploads(), n == 1 && fault.happens ? 1U : 0U) << n;
      }
}

TEST(Uploads, ThatAreCompleteAreFoundWhenTheStoreHasForgottenThem) {
  for (const auto kind : {FakeS3::Kind::kStrict, FakeS3::Kind::kLax}) {
    const auto server = std::make_shared<FakeS3>(kind);
    server->forgets_uploads = true;
    fail_request(*server, 5, {kLost, true});
    const auto store = make_s3_store(server);
    upload(server);
    EXPECT_EQ(store->size("k"), kSize);
  }
}

TEST(Uploads, AreAbortedWhenAPartFails) {
  for (std::size_t n = 2; n <= 5; ++n) {
    const auto server = std::make_shared<FakeS3>();
    fail_request(*server, n, {testing::answer(403, testing::s3_error("AccessDenied"))});
    const auto store = make_s3_store(server);
    EXPECT_THAT([&] { upload(server); }, FailsWith(Code::kIo, "s3://bucket/k")) << n;
    EXPECT_EQ(server->open_uploads(), 0U) << n;
    EXPECT_EQ(store->size("k"), std::nullopt);
  }
}

TEST(Uploads, ADeadServerCostsOneRetryBudget) {
  const auto server = std::make_shared<FakeS3>();
  std::size_t aborts = 0;
  server->fault = [&](std::size_t n, const HttpRequest& request) -> std::optional<S3Fault> {
    if (request.method == "DELETE") ++aborts;
    return n == 1 ? std::nullopt : std::optional(S3Fault{TransportError{.why = "refused"}});
  };
  EXPECT_THAT([&] { upload(server); }, FailsWith(Code::kIo, "times in 120.0 s"));
  EXPECT_GT(aborts, 1U);
  EXPECT_LT(aborts, 12U) << "five seconds";
}

TEST(Uploads, AnErrorInsideASuccessIsAFailure) {
  const auto server = std::make_shared<FakeS3>();
  fail_request(*server, 5, {testing::answer(200, testing::s3_error("InternalError"))});
  const auto store = make_s3_store(server);
  upload(server);
  EXPECT_EQ(store->size("k"), kSize) << "a passing error: it is sent again";
  server->fault = [](std::size_t, const HttpRequest& request) -> std::optional<S3Fault> {
    if (request.method != "POST" || request.url.find("uploadId") == std::string::npos)
      return std::nullopt;
    return S3Fault{testing::answer(200, testing::s3_error("InvalidPart"))};
  };
  store->remove("k");
  EXPECT_THAT([&] { upload(server); }, FailsWith(Code::kIo, "200 InvalidPart"));
  EXPECT_EQ(store->size("k"), std::nullopt);
  EXPECT_EQ(server->open_uploads(), 0U);
}

TEST(Uploads, OfExactlyOnePartAreOnePut) {
  const auto server = std::make_shared<FakeS3>();
  upload(server, kPartOfThree);
  EXPECT_EQ(server->requests(), 1U);
  upload(server, kPartOfThree + 1);
  EXPECT_EQ(server->requests(), 5U) << "begin, two parts, complete";
}

TEST(Uploads, ThatAreOpenCanBeListed) {
  const auto server = std::make_shared<FakeS3>(FakeS3::Kind::kLax);
  const auto client = testing::make_client(testing::connect_to(server));
  const std::string id = client->begin_upload("a b");
  const auto open = client->uploads("");
  ASSERT_EQ(open.size(), 1U);
  EXPECT_EQ(open[0].key, "a b");
  EXPECT_EQ(open[0].id, id);
  client->abort("a b", id);
  client->abort("a b", id);
  EXPECT_TRUE(client->uploads("").empty());
}

// Faults that pass: half of them after the store has acted.
std::optional<S3Fault> random_fault(std::mt19937_64& random) {
  const bool happens = random() % 2 == 0;
  switch (random() % 16) {
    case 0:
      return S3Fault{kLost, happens};
    case 1:
      return S3Fault{testing::answer(500, testing::s3_error("InternalError")), happens};
    case 2:
      return S3Fault{testing::answer(503, testing::s3_error("SlowDown")), happens};
    case 3:
      return S3Fault{TransportError{.delivery = Delivery::kAnswered, .why = "cut"}, happens};
    case 4:
      return S3Fault{TransportError{.why = "connection refused"}};
    case 5:
      return S3Fault{testing::answer(400, testing::s3_error("RequestTimeout"))};
    default:
      return std::nullopt;
  }
}

class RandomOperations {
 public:
  explicit RandomOperations(std::uint64_t seed, FakeS3::Kind kind)
      : random_(seed), server_(std::make_shared<FakeS3>(kind)), store_(make_s3_store(server_)) {
    server_->page_size = 3;
    server_->fault = [this](std::size_t, const HttpRequest&) { return random_fault(random_); };
  }

  void step() {
    const std::string key = any_key(), value = any_value();
    switch (random_() % 9) {
      case 0:
        store_->write(key, as_bytes(value));
        return model_->write(key, as_bytes(value));
      case 1: {
        const auto appender = store_->append(key);
        const ByteView part = as_bytes(value);
        appender->append({&part, 1});
        appender->commit();
        return model_->write(key, as_bytes(value));
      }
      case 2:
        store_->remove(key);
        return model_->remove(key);
      case 3: {
        const std::vector<std::string> keys = {key, any_key(), any_key()};
        store_->remove_all(keys);
        return model_->remove_all(keys);
      }
      case 4:
        return replace(key, value);
      case 5:
        return copy(key, any_key());
      case 6:
        return read(key);
      default:
        return list(key.substr(0, random_() % (key.size() + 1)));
    }
  }

 private:
  std::string any_key() {
    constexpr const char* kNames[] = {"a", "b c", "a-b", "a+", "\xc3\xa9", "\x02", "%2F"};
    std::string key = kNames[random_() % 7];
    for (auto more = random_() % 3; more > 0; --more)
      key += std::string("/") + kNames[random_() % 7];
    return key;
  }
  std::string any_value() {
    return std::string(random_() % 20, static_cast<char>('a' + random_() % 3));
  }

  void replace(const std::string& key, const std::string& value) {
    const auto stored = model_->read(key, {});
    std::optional<ByteView> expected;
    const std::string guess = any_value();
    if (random_() % 3 != 0)
      expected = stored && random_() % 4 != 0 ? ByteView(*stored) : as_bytes(guess);
    EXPECT_EQ(store_->replace_if(key, expected, as_bytes(value)),
              model_->replace_if(key, expected, as_bytes(value)))
        << key;
  }
  void copy(const std::string& from, const std::string& to) {
    const auto value = model_->read(from, {});
    EXPECT_EQ(store_->copy(from, to), value.has_value());
    if (value) model_->write(to, *value);
  }
  void read(const std::string& key) {
    const auto stored = model_->read(key, {});
    EXPECT_EQ(store_->read(key, {}), stored) << key;
    EXPECT_EQ(store_->size(key), model_->size(key)) << key;
    if (!stored) return;
    const std::uint64_t first = random_() % (stored->size() + 1);
    EXPECT_EQ(store_->read(key, {first, stored->size() - first}),
              model_->read(key, {first, stored->size() - first}));
    const auto source = store_->open(key, "");
    Bytes out(stored->size());
    source->read_into(0, out);
    EXPECT_EQ(out, *stored);
  }
  void list(const std::string& prefix) {
    EXPECT_EQ(store_->list(prefix), model_->list(prefix)) << prefix;
    const StoreListing level = store_->list_level(prefix), expected = model_->list_level(prefix);
    EXPECT_EQ(level.folders, expected.folders) << prefix;
    ASSERT_EQ(level.values.size(), expected.values.size()) << prefix;
    for (std::size_t i = 0; i < level.values.size(); ++i)
      EXPECT_EQ(level.values[i].key, expected.values[i].key);
  }

  std::mt19937_64 random_;
  std::shared_ptr<FakeS3> server_;
  StorePtr store_;
  StorePtr model_ = make_memory_store();
};

TEST(S3Store, DoesWhatMemoryDoesUnderFaults) {
  for (std::uint64_t run = 0; run < 10; ++run) {
    const auto kind = run % 2 == 0 ? FakeS3::Kind::kStrict : FakeS3::Kind::kLax;
    RandomOperations operations(cairn::testing::seed() + run, kind);
    for (int i = 0; i < 400; ++i) {
      operations.step();
      if (::testing::Test::HasFailure()) FAIL() << "run " << run << ", step " << i;
    }
  }
}

}  // namespace
}  // namespace cairn::object

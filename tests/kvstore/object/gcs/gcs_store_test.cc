#include <cairn/io/tree/range_source.h>
#include <cairn/kvstore/object/gcs/gcs_store.h>
#include <gmock/gmock.h>

#include <map>

#include "tests/kvstore/object/support/fake_gcs.h"
#include "tests/support/matchers.h"

namespace cairn::object {
namespace {

using cairn::testing::FailsWith;
using ::testing::ElementsAre;
using testing::FakeGcs;
using testing::GcsFault;
using ::testing::HasSubstr;
using ::testing::Not;

class GcsStoreTest : public ::testing::Test {
 protected:
  // The fault of the nth request from now on.
  void fail_request(std::size_t n, GcsFault fault) {
    const std::size_t number = fake_->requests() + n;
    fake_->fault = [=](std::size_t at) { return at == number ? fault : GcsFault::kNone; };
  }
  std::string read(std::string_view key, ByteRange range = {}) {
    return std::string(as_text(store_->read(key, range).value()));
  }

  std::shared_ptr<FakeGcs> fake_ = std::make_shared<FakeGcs>();
  StorePtr store_ = make_gcs_store(testing::client_of(fake_));
};

TEST_F(GcsStoreTest, NeedsFewRequests) {
  store_->write("a/b", as_bytes("0123456789"));
  EXPECT_EQ(read("a/b"), "0123456789");
  EXPECT_EQ(read("a/b", {2, 3}), "234");
  Bytes out(4);
  EXPECT_TRUE(store_->read_into("a/b", 1, out));
  EXPECT_TRUE(store_->replace_if("new", std::nullopt, as_bytes("x")));
  store_->remove("new");
  EXPECT_EQ(store_->list("").size(), 1U);
  EXPECT_THAT(fake_->log,
              ElementsAre("POST multipart a/b", "GET media a/b", "GET media a/b", "GET media a/b",
                          "POST multipart new", "DELETE object new", "GET list "));
}

TEST_F(GcsStoreTest, AMissingBucketIsNeverEmpty) {
  fake_->bucket = "other";
  const auto no_bucket = FailsWith(Code::kNotFound, "gs://bkt: no such bucket");
  Bytes out(1);
  EXPECT_THAT([&] { (void)store_->read("a", {}); }, no_bucket);
  EXPECT_THAT([&] { (void)store_->read_at_most("a", 1); }, no_bucket);
  EXPECT_THAT([&] { store_->read_into("a", 0, out); }, no_bucket);
  EXPECT_THAT([&] { (void)store_->size("a"); }, no_bucket);
  EXPECT_THAT([&] { (void)store_->open("a", ""); }, no_bucket);
  EXPECT_THAT([&] { (void)store_->list(""); }, no_bucket);
  EXPECT_THAT([&] { (void)store_->list_level(""); }, no_bucket);
  EXPECT_THAT([&] { store_->write("a", {}); }, no_bucket);
  EXPECT_THAT([&] { store_->remove("a"); }, no_bucket);
  EXPECT_THAT([&] { store_->copy("a", "b"); }, no_bucket);
  EXPECT_THAT([&] { store_->replace_if("a", std::nullopt, {}); }, no_bucket);
  EXPECT_THAT([&] { store_->append("a")->commit(); }, no_bucket);
}

TEST_F(GcsStoreTest, RefusesNamesThatAFolderCannotHold) {
  for (const std::string key : {"a//b", "/a", "a/", ".", "..", "a/../b", "a/./b"}) {
    EXPECT_THAT([&] { store_->write(key, {}); }, FailsWith(Code::kInvalidArgument, "key")) << key;
    EXPECT_THAT([&] { (void)store_->size(key); }, FailsWith(Code::kInvalidArgument)) << key;
    EXPECT_THAT([&] { store_->remove_all({"good", key}); }, FailsWith(Code::kInvalidArgument));
  }
  for (const std::string& key :
       {std::string(1025, 'a'), std::string("a\0b", 3), std::string("\xff")})
    EXPECT_THAT([&] { store_->replace_if(key, std::nullopt, {}); },
                FailsWith(Code::kInvalidArgument));
  EXPECT_EQ(fake_->requests(), 0U);
}

TEST_F(GcsStoreTest, NamesAreLiteral) {
  for (const std::string key : {"a b", "a+b", "per%41", "q?x=1&y#z", "\xc3\xa9", "back\\slash"}) {
    store_->write(key, as_bytes(key));
    EXPECT_EQ(fake_->bytes_of(key), key);
    EXPECT_EQ(read(key), key);
  }
  EXPECT_EQ(store_->list("").size(), 6U);
}

TEST_F(GcsStoreTest, ListsWithVersionsInPages) {
  std::map<std::string, std::string> versions;
  for (const std::string key : {"r/a", "r/b/x", "r/b/y", "r/c/z", "r/d", "s"})
    versions[key] = std::to_string(fake_->store(key, "12"));
  for (const char* hidden : {"r/", "r//e", "r/b/"}) fake_->store(hidden, "");
  fake_->page_size = 2;
  const StoreListing all = store_->list_values("r/", 100);
  EXPECT_TRUE(all.is_whole);
  ASSERT_EQ(all.values.size(), 5U);
  for (const StoredValue& value : all.values)
    EXPECT_EQ(value, (StoredValue{value.key, 2, versions[value.key], 1795874508500000000}));
  const StoreListing level = store_->list_level("r/");
  EXPECT_THAT(level.folders, ElementsAre("r/b/", "r/c/"));
  EXPECT_EQ(level.values.size(), 2U);
  const StoreListing some = store_->list_values("", 3);
  EXPECT_FALSE(some.is_whole);
  EXPECT_EQ(some.values.size(), 3U);
  EXPECT_EQ(some.values.back().key, "r/b/y");
  EXPECT_TRUE(store_->list_values("s", 1).is_whole);
}

TEST_F(GcsStoreTest, RefusesOddListings) {
  const auto answer_with = [&](const std::string& json) {
    fake_->change_answer = [=](HttpResponse& response) {
      response.body.assign(as_bytes(json).begin(), as_bytes(json).end());
    };
  };
  answer_with(R"({"items": [{"name": "b", "size": "1", "generation": "1"}]})");
  EXPECT_THAT([&] { (void)store_->list("a/"); }, FailsWith(Code::kIo, "other names"));
  answer_with(R"({"prefixes": ["a/b"]})");
  EXPECT_THAT([&] { (void)store_->list_level("a/"); }, FailsWith(Code::kIo, "other names"));
  answer_with(R"({"nextPageToken": "t"})");
  EXPECT_THAT([&] { (void)store_->list("a/"); }, FailsWith(Code::kIo, "does not end"));
  answer_with("<html>");
  EXPECT_THAT([&] { (void)store_->list("a/"); }, FailsWith(Code::kIo, "gs://bkt/a/"));
}

TEST_F(GcsStoreTest, OpensOneVersion) {
  const std::string version = std::to_string(fake_->store("a", "0123456789"));
  EXPECT_EQ(store_->open("none", ""), nullptr);
  EXPECT_THAT([&] { (void)store_->open("a", "5"); }, FailsWith(Code::kUnavailable, "gs://bkt/a"));
  const auto source = store_->open("a", version);
  const auto unread = store_->open("a", version);
  EXPECT_EQ(source->size(), 10U);
  EXPECT_EQ(source->version(), version);
  EXPECT_EQ(source->modified_ns(), 1795874508500000000);
  Bytes first(2), last(3);
  const MutableByteView parts[] = {first, {static_cast<std::byte*>(nullptr), 4}, last};
  source->read_scatter(1, parts);
  EXPECT_EQ(as_text(first), "12");
  EXPECT_EQ(as_text(last), "789");
  EXPECT_THAT([&] { source->read_into(8, last); }, FailsWith(Code::kOutOfRange, "gs://bkt/a"));
  source->read_into(10, {});
  fake_->store("a", "abcdefghij");
  source->read_into(0, last);
  EXPECT_EQ(as_text(last), "012") << "the beginning is kept";
  Bytes whole(10);
  EXPECT_THAT([&] { unread->read_into(0, whole); }, FailsWith(Code::kUnavailable, "replaced"));
  fake_->erase("a");
  EXPECT_THAT([&] { unread->read_into(0, whole); }, FailsWith(Code::kUnavailable, "removed"));
}

// A cut read of one version goes on where it ended. One of whichever version is stored begins anew:
// the object may be another one by then.
TEST_F(GcsStoreTest, ACutReadOfAVersionIsContinued) {
  const auto source = store_->open("a", std::to_string(fake_->store("a", "0123456789")));
  fail_request(0, GcsFault::kCut);
  Bytes out(10);
  source->read_into(0, out);
  EXPECT_EQ(as_text(out), "0123456789");
  EXPECT_EQ(fake_->ranges.back(), "bytes=5-9");
  fail_request(0, GcsFault::kCut);
  const std::size_t second = fake_->requests() + 1;
  fake_->before = [=](std::size_t at, FakeGcs& fake) {
    if (at == second) fake.store("a", "abcdefghij");
  };
  EXPECT_TRUE(store_->read_into("a", 0, out));
  EXPECT_EQ(as_text(out), "abcdefghij");
}

TEST_F(GcsStoreTest, AnAnswerOfAnotherGenerationIsUnavailable) {
  const auto source = store_->open("a", std::to_string(fake_->store("a", "0123456789")));
  fake_->change_answer = [](HttpResponse& response) {
    HttpHeaders headers;
    headers.add("x-goog-generation", "7");
    response.headers = headers;
  };
  Bytes out(10);
  EXPECT_THAT([&] { source->read_into(0, out); }, FailsWith(Code::kUnavailable));
}

// The object is stored, the answer is lost, and the second try finds the object.
TEST_F(GcsStoreTest, ALostAnswerOfACreationIsSuccess) {
  for (const GcsFault fault : {GcsFault::kLost, GcsFault::kCut}) {
    fail_request(0, fault);
    EXPECT_TRUE(store_->replace_if("a", std::nullopt, as_bytes("text")));
    EXPECT_FALSE(store_->replace_if("a", std::nullopt, as_bytes("text")));
    store_->remove("a");
  }
}

// Markers of commits have the same bytes, whoever writes them.
TEST_F(GcsStoreTest, AnotherWritersEqualObjectIsNotOurs) {
  fail_request(0, GcsFault::kDropped);
  fake_->store("a", "text", "another");
  EXPECT_FALSE(store_->replace_if("a", std::nullopt, as_bytes("text")));
  fail_request(0, GcsFault::kDropped);
  fake_->store("b", "text");
  EXPECT_FALSE(store_->replace_if("b", std::nullopt, as_bytes("text")));
}

TEST_F(GcsStoreTest, ALostAnswerOfAReplacementIsSuccess) {
  fake_->store("a", "old");
  fail_request(2, GcsFault::kLost);  // after the look-up and the read
  EXPECT_TRUE(store_->replace_if("a", as_bytes("old"), as_bytes("new")));
  EXPECT_EQ(fake_->bytes_of("a"), "new");
  EXPECT_FALSE(store_->replace_if("a", as_bytes("old"), as_bytes("newer")));
}

TEST_F(GcsStoreTest, AWriterBetweenIsNoticed) {
  fake_->store("a", "old");
  const std::size_t last = fake_->requests() + 2;  // after the look-up and the read
  fake_->before = [=](std::size_t at, FakeGcs& fake) {
    if (at == last) fake.store("a", "other");
  };
  EXPECT_FALSE(store_->replace_if("a", as_bytes("old"), as_bytes("new")));
  EXPECT_EQ(fake_->bytes_of("a"), "other");
}

// The look-up finds a value of the right length, which then grows, or goes.
TEST_F(GcsStoreTest, AWriterBetweenLookUpAndReadIsNoticed) {
  for (const bool removes : {false, true}) {
    fake_->store("a", "old");
    const std::size_t read = fake_->requests() + 1;
    fake_->before = [=](std::size_t at, FakeGcs& fake) {
      if (at != read) return;
      removes ? fake.erase("a") : void(fake.store("a", "longer"));
    };
    EXPECT_FALSE(store_->replace_if("a", as_bytes("old"), as_bytes("new")));
  }
}

TEST_F(GcsStoreTest, EveryFaultOfARequestIsRepeated) {
  for (const GcsFault fault :
       {GcsFault::kRefused, GcsFault::kDropped, GcsFault::kLost, GcsFault::kCut}) {
    fail_request(0, fault);
    store_->write("a/b", as_bytes("0123456789"));
    fail_request(0, fault);
    EXPECT_EQ(read("a/b"), "0123456789");
    Bytes out(4);
    fail_request(0, fault);
    EXPECT_TRUE(store_->read_into("a/b", 3, out));
    EXPECT_EQ(as_text(out), "3456");
    fail_request(0, fault);
    EXPECT_EQ(store_->list("").size(), 1U);
    fail_request(0, fault);
    EXPECT_TRUE(store_->copy("a/b", "c"));
    fail_request(0, fault);
    store_->remove("c");
    EXPECT_EQ(store_->list("").size(), 1U);
  }
}

TEST_F(GcsStoreTest, ADeadServiceIsAnIoError) {
  fake_->fault = [](std::size_t) { return GcsFault::kRefused; };
  EXPECT_THAT([&] { (void)store_->read("a", {}); }, FailsWith(Code::kIo, "503"));
  EXPECT_THAT([&] { store_->write("a", {}); }, FailsWith(Code::kIo, "gs://bkt/a"));
}

TEST_F(GcsStoreTest, DamagedBytesOfAWholeObjectAreNoticed) {
  fake_->store("a", "0123456789");
  int answers = 0, damaged = 1;
  fake_->change_answer = [&](HttpResponse& response) {
    if (answers++ < damaged) response.body[3] ^= std::byte{4};
  };
  EXPECT_EQ(read("a"), "0123456789") << "one damaged answer is read again";
  answers = 0;
  damaged = 2;
  EXPECT_THAT([&] { read("a"); }, FailsWith(Code::kDataLoss, "crc32c"));
  answers = 0;
  Bytes out(10);
  EXPECT_THAT([&] { store_->read_into("a", 0, out); }, FailsWith(Code::kDataLoss, "crc32c"));
}

TEST_F(GcsStoreTest, WrongRangesAreNoticed) {
  fake_->store("a", "0123456789");
  const auto answer_with = [&](int status, const std::string& range, const std::string& body) {
    fake_->change_answer = [=](HttpResponse& response) {
      response = testing::answer(status, body);
      if (!range.empty()) response.headers.add("content-range", range);
    };
  };
  const auto read_three = [&] { read("a", {2, 3}); };
  answer_with(206, "bytes 1-3/10", "123");
  EXPECT_THAT(read_three, FailsWith(Code::kIo, "another range"));
  answer_with(206, "bytes 2-5/10", "234");
  EXPECT_THAT(read_three, FailsWith(Code::kIo, "another range"));
  answer_with(206, "", "234");
  EXPECT_THAT(read_three, FailsWith(Code::kIo, "another range"));
  answer_with(206, "bytes 2-3/10", "23");
  EXPECT_THAT(read_three, FailsWith(Code::kIo, "less"));
  answer_with(200, "", "012");
  EXPECT_THAT(read_three, FailsWith(Code::kIo, "ignored"));
  answer_with(204, "", "");
  EXPECT_THAT(read_three, FailsWith(Code::kIo));
}

// The service compares the checksum before it stores; this is the answer of one that does not.
TEST_F(GcsStoreTest, AnObjectThatWasDamagedOnItsWayIsRemoved) {
  fake_->change_answer = [](HttpResponse& response) {
    std::string body(as_text(response.body));
    const std::size_t crc = body.find("\"crc32c\":\"");
    if (crc == std::string::npos) return;
    body[crc + 10] = body[crc + 10] == 'A' ? 'B' : 'A';
    response.body.assign(as_bytes(body).begin(), as_bytes(body).end());
  };
  EXPECT_THAT([&] { store_->write("a", as_bytes("text")); }, FailsWith(Code::kDataLoss, "crc32c"));
  EXPECT_EQ(fake_->bytes_of("a"), std::nullopt);
}

TEST_F(GcsStoreTest, CopiesInsideTheBucket) {
  fake_->store("a", "text");
  fake_->calls_of_copy = 3;
  EXPECT_TRUE(store_->copy("a", "b/c"));
  EXPECT_EQ(fake_->bytes_of("b/c"), "text");
  EXPECT_EQ(fake_->count("POST copy"), 3U);
  EXPECT_FALSE(store_->copy("none", "b"));
}

TEST_F(GcsStoreTest, RemovesManyAtOnce) {
  std::vector<std::string> keys;
  for (int i = 0; i < 50; ++i) {
    keys.push_back("k/" + std::to_string(i));
    if (i % 10 != 0) fake_->store(keys.back(), "x");
  }
  fake_->store("other", "x");
  store_->remove_all(keys);
  store_->remove_all({});
  EXPECT_THAT(store_->list(""), ElementsAre(ListEntry{"other", 1}));
}

TEST_F(GcsStoreTest, ErrorsNameThePlaceAndNothingSecret) {
  fake_->token = "right";
  class Bearer : public Signer {
   public:
    void sign(HttpRequest& request) override {
      request.headers.add("Authorization", "Bearer s3cret");
    }
    bool refresh() override { return false; }
  };
  const StorePtr store = make_gcs_store(testing::client_of(fake_, std::make_shared<Bearer>()));
  const Error error = cairn::testing::error_of([&] { (void)store->read("a/b", {}); });
  EXPECT_EQ(error.code(), Code::kIo);
  EXPECT_THAT(error.message(), HasSubstr("gs://bkt/a/b: GET http://gcs.test/storage/v1/b/bkt/o/"));
  EXPECT_THAT(error.message(), HasSubstr("401"));
  EXPECT_THAT(error.message(), Not(HasSubstr("s3cret")));
  EXPECT_THAT(error.message(), Not(HasSubstr("alt=media")));
  EXPECT_THAT([&] { store->write("a", {}); }, FailsWith(Code::kIo, "401"));
  EXPECT_THAT([&] { store->remove("a"); }, FailsWith(Code::kIo, "401"));
  EXPECT_THAT([&] { (void)store->list(""); }, FailsWith(Code::kIo, "401"));
}

}  // namespace
}  // namespace cairn::object

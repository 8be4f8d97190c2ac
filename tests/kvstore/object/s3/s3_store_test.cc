// s3_store_test.cc -- S3Store beyond the contract of all stores: what it asks for, and what it
// makes of refusals and of damaged answers.
#include <cairn/io/tree/range_source.h>
#include <cairn/kvstore/object/s3/s3_store.h>
#include <gmock/gmock.h>

#include "tests/kvstore/object/support/s3_fixture.h"
#include "tests/support/matchers.h"

namespace cairn::object {
namespace {

using cairn::testing::FailsWith;
using ::testing::ElementsAre;
using testing::FakeS3;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::make_s3_store;
using ::testing::Not;
using testing::S3Fault;

struct Bucket {
  explicit Bucket(FakeS3::Kind kind = FakeS3::Kind::kStrict)
      : server(std::make_shared<FakeS3>(kind)), store(make_s3_store(server)) {}

  // How many requests a call makes.
  template <class Call>
  std::size_t requests_of(Call&& call) {
    const std::size_t before = server->requests();
    call();
    return server->requests() - before;
  }

  std::shared_ptr<FakeS3> server;
  StorePtr store;
};

TEST(S3Store, AsksNoMoreThanItMust) {
  Bucket bucket;
  for (const char* key : {"a", "b/c", "b/d"}) bucket.server->put(key, "0123456789");
  KvStore& store = *bucket.store;
  Bytes out(3);
  EXPECT_EQ(bucket.requests_of([&] { (void)store.read("a", {}); }), 1U);
  EXPECT_EQ(bucket.requests_of([&] { (void)store.read("a", {2, 3}); }), 1U);
  EXPECT_EQ(bucket.requests_of([&] { (void)store.read_at_most("a", 10); }), 1U);
  EXPECT_EQ(bucket.requests_of([&] { store.read_into("a", 2, out); }), 1U);
  EXPECT_EQ(bucket.requests_of([&] { (void)store.size("a"); }), 1U);
  EXPECT_EQ(bucket.requests_of([&] { (void)store.list(""); }), 1U);
  EXPECT_EQ(bucket.requests_of([&] { (void)store.list_level("b/"); }), 1U);
  EXPECT_EQ(bucket.requests_of([&] { store.write("e", {}); }), 1U);
  EXPECT_EQ(bucket.requests_of([&] { store.replace_if("f", std::nullopt, {}); }), 2U)
      << "the first one is tried twice";
  EXPECT_EQ(bucket.requests_of([&] { store.replace_if("f2", std::nullopt, {}); }), 1U);
  EXPECT_EQ(bucket.requests_of([&] { store.append("g")->commit(); }), 1U);
  EXPECT_EQ(bucket.requests_of([&] { store.remove("g"); }), 1U);
  EXPECT_EQ(bucket.requests_of([&] { (void)store.read("g", {}); }), 1U);
  EXPECT_EQ(bucket.requests_of([&] { (void)store.size("g"); }), 1U);
}

TEST(S3Store, NamesTheBucketInDescriptions) {
  const Bucket bucket;
  EXPECT_EQ(bucket.store->describe("a/b"), "s3://bucket/a/b");
  EXPECT_EQ(make_s3_store(bucket.server, {.prefix = "p/q"})->describe("a"), "s3://bucket/p/q/a");
}

// Every call that sends a request.
const std::vector<std::pair<const char*, std::function<void(KvStore&)>>> kVerbs = {
    {"read", [](KvStore& s) { (void)s.read("k", {}); }},
    {"range",
     [](KvStore& s) {
       (void)s.read("k", {0, 1});
     }},
    {"most", [](KvStore& s) { (void)s.read_at_most("k", 9); }},
    {"size", [](KvStore& s) { (void)s.size("k"); }},
    {"map", [](KvStore& s) { (void)s.map("k"); }},
    {"open", [](KvStore& s) { (void)s.open("k", ""); }},
    {"list", [](KvStore& s) { (void)s.list(""); }},
    {"level", [](KvStore& s) { (void)s.list_level(""); }},
    {"values", [](KvStore& s) { (void)s.list_values("", 5); }},
    {"write", [](KvStore& s) { s.write("k", as_bytes("v")); }},
    {"remove", [](KvStore& s) { s.remove("k"); }},
    {"remove_all", [](KvStore& s) { s.remove_all({"k"}); }},
    {"copy", [](KvStore& s) { s.copy("k", "l"); }},
    {"create", [](KvStore& s) { s.replace_if("k", std::nullopt, {}); }},
    {"replace", [](KvStore& s) { s.replace_if("k", as_bytes("v"), {}); }},
    {"append", [](KvStore& s) { s.append("k")->commit(); }},
};

TEST(S3Store, AMissingBucketIsNeverEmpty) {
  for (const auto& [name, verb] : kVerbs) {
    const auto store = make_s3_store(std::make_shared<FakeS3>(), {.bucket = "other"});
    EXPECT_THAT(([&, call = verb] { call(*store); }), FailsWith(Code::kNotFound, "no such bucket"))
        << name;
  }
}

TEST(S3Store, RefusedCredentialsAreErrorsOfEveryVerb) {
  const auto refused = [](const testing::S3Options& options, const char* why) {
    for (const auto& [name, verb] : kVerbs) {
      const auto store = make_s3_store(std::make_shared<FakeS3>(), options);
      const Error error = cairn::testing::error_of([&, call = verb] { call(*store); });
      EXPECT_EQ(error.code(), Code::kIo) << name;
      EXPECT_THAT(error.message(), HasSubstr(why)) << name;
      EXPECT_THAT(error.message(), Not(HasSubstr("hidden"))) << name;
    }
  };
  refused({.keys = AwsKeys{"key", "hidden", {}, {}}}, "the secret key is wrong");
  refused({.keys = AwsKeys{"unknown", "hidden", {}, {}}}, "does not know the access key");
  refused({.keys = std::nullopt}, "the credentials do not allow it");
}

TEST(S3Store, AnonymousRequestsAreNotSigned) {
  const auto server = std::make_shared<FakeS3>();
  server->access_key = "";
  server->put("k", "v");
  EXPECT_EQ(make_s3_store(server, {.keys = std::nullopt})->size("k"), 1U);
}

TEST(S3Store, LearnsTheRegionOfABucketOnce) {
  const auto server = std::make_shared<FakeS3>();
  server->region = "eu-west-3";
  server->put("k", "v");
  const auto store = make_s3_store(server);
  EXPECT_EQ(as_text(*store->read("k", {})), "v");
  EXPECT_EQ(server->requests(), 2U);
  EXPECT_EQ(as_text(*store->read("k", {})), "v");
  EXPECT_EQ(server->requests(), 3U);
  // HEAD does not say what is wrong, GET does.
  EXPECT_EQ(make_s3_store(server)->size("k"), 1U);
}

TEST(S3Store, EveryVerbLearnsTheRegion) {
  for (const auto& [name, verb] : kVerbs) {
    const auto server = std::make_shared<FakeS3>();
    server->region = "eu-west-3";
    server->put("k", "v");
    const auto store = make_s3_store(server);
    EXPECT_NO_THROW(verb(*store)) << name;
    EXPECT_NO_THROW(verb(*store)) << name;
  }
}

TEST(S3Store, ARegionThatTurnsOutWrongIsAnErrorOfEveryVerb) {
  for (const auto& [name, verb] : kVerbs) {
    Bucket bucket;
    int answers = 0;
    bucket.server->fault = [&](std::size_t, const HttpRequest&) {
      const std::string other = "r-" + std::to_string(++answers);
      return S3Fault{testing::answer(301, "", {{"x-amz-bucket-region", other}})};
    };
    EXPECT_THAT(([&, call = verb] { call(*bucket.store); }),
                FailsWith(Code::kInvalidArgument, "the bucket is in region r-2"))
        << name;
    EXPECT_EQ(answers, 2) << name;
  }
}

TEST(S3Store, EveryVerbOutlivesATokenThatExpires) {
  for (const auto& [name, verb] : kVerbs)
    for (std::size_t n = 1; n <= 4; ++n)
      for (const bool has_newer : {true, false}) {
        const auto server = std::make_shared<FakeS3>();
        server->put("k", "v");
        std::size_t reached = 0;
        server->fault = [&](std::size_t each, const HttpRequest&) -> std::optional<S3Fault> {
          reached = each;
          if (each < n || (each > n && has_newer)) return std::nullopt;
          return S3Fault{testing::answer(400, testing::s3_error("ExpiredToken"))};
        };
        const auto store = make_s3_store(server, {.has_newer_keys = has_newer});
        const auto call = [&, each = verb] { each(*store); };
        if (has_newer) {
          EXPECT_NO_THROW(call()) << name << n;
        } else if (try_call([&] { return call(), 0; }).ok()) {
          EXPECT_LT(reached, n) << name;
        } else {
          EXPECT_THAT(call, FailsWith(Code::kIo, "the session token has expired")) << name;
        }
      }
}

TEST(S3Store, RefusesKeysThatAFolderCouldNotHold) {
  Bucket bucket;
  for (const char* key : {"a//b", "/a", "a/", ".", "a/../b", "\xff"}) {
    EXPECT_THAT([&] { bucket.store->write(key, {}); }, FailsWith(Code::kInvalidArgument)) << key;
    EXPECT_THAT([&] { (void)bucket.store->read(key, {}); }, FailsWith(Code::kInvalidArgument));
    EXPECT_THAT([&] { bucket.store->copy("k", key); }, FailsWith(Code::kInvalidArgument));
    EXPECT_THAT([&] { bucket.store->remove_all({"k", key}); }, FailsWith(Code::kInvalidArgument));
  }
  EXPECT_EQ(bucket.server->requests(), 0U);
}

TEST(S3Store, ListingsLeaveOutWhatHasNoKey) {
  Bucket bucket;
  for (const char* key : {"a", "d//e", "dir/", "dir/f", "./x", "x/../y", "/z"})
    bucket.server->put(key, "v");
  EXPECT_THAT(bucket.store->list(""), ElementsAre(ListEntry{"a", 1}, ListEntry{"dir/f", 1}));
  const StoreListing level = bucket.store->list_level("dir/");
  EXPECT_EQ(level.values.size(), 1U);
  EXPECT_THAT(bucket.store->list_level("").folders, ElementsAre("d/", "dir/", "x/"));
  EXPECT_THAT(bucket.store->list_level("d/").folders, IsEmpty());
}

TEST(S3Store, ListsByBytesWhateverTheServerDoes) {
  for (const auto kind : {FakeS3::Kind::kStrict, FakeS3::Kind::kLax}) {
    Bucket bucket(kind);
    bucket.server->page_size = 2;
    for (const char* key : {"p/a-b", "p/a/b", "p/a b", "p/ab", "p/\xc3\xa9", "p/a+c", "p/%41"})
      bucket.server->put(key, key);
    std::vector<std::string> keys;
    for (const auto& entry : bucket.store->list("p/")) keys.push_back(entry.key);
    EXPECT_THAT(keys,
                ElementsAre("p/%41", "p/a b", "p/a+c", "p/a-b", "p/a/b", "p/ab", "p/\xc3\xa9"));
    const StoreListing some = bucket.store->list_values("p/", 3);
    EXPECT_EQ(some.values.size(), 3U);
    EXPECT_FALSE(some.is_whole);
    const StoreListing all = bucket.store->list_values("p/", 7);
    EXPECT_TRUE(all.is_whole);
    EXPECT_EQ(all.values[0].version.front(), '"');
    EXPECT_GT(all.values[0].modified_ns, 0);
  }
}

TEST(S3Store, APagingThatRepeatsIsDamage) {
  Bucket bucket;
  bucket.server->page_size = 1;
  for (const char* key : {"a", "b", "c"}) bucket.server->put(key, "v");
  bucket.server->damage = [](std::size_t, const HttpRequest&, HttpResponse& response) {
    const std::string body =
        "<ListBucketResult><IsTruncated>true</IsTruncated>"
        "<NextContinuationToken>t</NextContinuationToken></ListBucketResult>";
    response.body.assign(as_bytes(body).begin(), as_bytes(body).end());
  };
  EXPECT_THAT([&] { (void)bucket.store->list(""); },
              FailsWith(Code::kIo, "the pages of the listing repeat"));
}

TEST(S3Store, APinnedReadNeverMixesVersions) {
  Bucket bucket;
  bucket.server->put("k", "0123456789");
  const auto source = bucket.store->open("k", "");
  ASSERT_NE(source, nullptr);
  EXPECT_EQ(source->size(), 10U);
  Bytes out(4);
  source->read_into(2, out);
  EXPECT_EQ(as_text(out), "2345");
  Bytes first(2), last(3);
  const MutableByteView parts[] = {first, {static_cast<std::byte*>(nullptr), 4}, last};
  source->read_scatter(1, parts);
  EXPECT_EQ(as_text(first), "12");
  EXPECT_EQ(as_text(last), "789");
  source->read_scatter(10, {});
  EXPECT_THAT([&] { source->read_into(7, out); }, FailsWith(Code::kOutOfRange, "s3://bucket/k"));
  EXPECT_NE(bucket.store->open("k", source->version()), nullptr);
  EXPECT_EQ(bucket.store->open("none", ""), nullptr);

  bucket.server->put("k", std::string(std::size_t{1} << 20U, 'x'));
  const auto large = bucket.store->open("k", "");
  bucket.server->put("k", "other");
  for (const auto& call : std::vector<std::function<void()>>{
           [&] { large->read_into(600'000, out); },
           [&] { (void)bucket.store->open("k", source->version()); },
           [&] { (void)bucket.store->open("none", source->version()); },
           [&] {
             bucket.store->remove("k");
             large->read_into(600'000, out);
           }})
    EXPECT_THAT(call, FailsWith(Code::kUnavailable, "was replaced or removed"));
}

// Answers that do not hold what was asked for are asked for once more.
TEST(S3Store, DamagedAnswersAreReadAgainAndThenRefused) {
  using Damage = std::function<void(HttpResponse&)>;
  const auto with_header = [](const char* name, const char* value) {
    return [=](HttpResponse& response) {
      HttpHeaders headers;
      for (const auto& [each, old] : response.headers.fields())
        headers.add(each, each == name ? value : old);
      response.headers = headers;
    };
  };
  const std::vector<std::pair<const char*, Damage>> damages = {
      {"another part", with_header("Content-Range", "bytes 3-5/10")},
      {"a shorter part", with_header("Content-Range", "bytes 2-3/10")},
      {"no total", with_header("Content-Range", "bytes 2-4/*")},
      {"no part", with_header("Content-Range", "bytes */10")},
      {"nonsense", with_header("Content-Range", "bytes")},
      {"a short body", [](HttpResponse& response) { response.body.pop_back(); }},
      {"the whole object", [](HttpResponse& response) {
         response.status = 200;
         response.body.resize(10);
       }}};
  for (const auto& [name, damage] : damages) {
    for (const int times : {1, 2}) {
      Bucket bucket;
      bucket.server->put("k", "0123456789");
      int done = 0;
      bucket.server->damage = [&, hurt = damage](std::size_t, const HttpRequest&,
                                                 HttpResponse& response) {
        if (done++ < times) hurt(response);
      };
      const auto read = [&] { return bucket.store->read("k", {2, 3}); };
      if (times == 1)
        EXPECT_EQ(as_text(*read()), "234") << name;
      else
        EXPECT_THAT([&] { (void)read(); }, FailsWith(Code::kIo, "GET http://s3.test:9000")) << name;
    }
  }
}

TEST(S3Store, ComparesTheChecksumOfAWholeObject) {
  Bucket bucket(FakeS3::Kind::kLax);
  bucket.server->put("k", "0123456789");
  bucket.server->damage = [](std::size_t, const HttpRequest&, HttpResponse& response) {
    response.body[3] ^= std::byte{1};
  };
  EXPECT_THAT([&] { (void)bucket.store->read("k", {}); },
              FailsWith(Code::kDataLoss, "do not have the checksum that the store sent"));
}

TEST(S3Store, SendsAWeakerCheckWhereItsOwnIsRefused) {
  Bucket bucket;
  bucket.server->knows_crc32c = false;
  EXPECT_EQ(bucket.requests_of([&] { bucket.store->write("k", as_bytes("v")); }), 2U);
  EXPECT_EQ(bucket.requests_of([&] { bucket.store->write("k", as_bytes("w")); }), 1U);
  EXPECT_EQ(as_text(*bucket.store->read("k", {})), "w");
}

TEST(S3Store, BytesThatArriveDamagedTwiceAreDataLoss) {
  Bucket bucket;
  int times = 1;
  bucket.server->fault = [&](std::size_t, const HttpRequest&) -> std::optional<S3Fault> {
    if (times-- <= 0) return std::nullopt;
    return S3Fault{testing::answer(400, testing::s3_error("BadDigest"))};
  };
  bucket.store->write("k", as_bytes("v"));
  times = 2;
  EXPECT_THAT([&] { bucket.store->write("k", as_bytes("v")); },
              FailsWith(Code::kDataLoss, "the bytes arrived damaged twice"));
}

TEST(S3Store, RefusesConditionalWritesWhereTheStoreIgnoresConditions) {
  Bucket bucket;
  bucket.server->knows_conditions = false;
  for (int i = 0; i < 2; ++i)
    EXPECT_THAT([&] { bucket.store->replace_if("k", std::nullopt, {}); },
                FailsWith(Code::kUnimplemented, "the store ignores If-None-Match"));
}

TEST(S3Store, RemovesAThousandKeysAtOnce) {
  Bucket bucket;
  std::vector<std::string> keys;
  for (int i = 0; i < 2500; ++i) keys.push_back("k" + std::to_string(i));
  keys.push_back("<&>\"'\r\n\t");
  for (const auto& key : keys) bucket.server->put(key, "v");
  EXPECT_EQ(bucket.requests_of([&] { bucket.store->remove_all(keys); }), 3U);
  EXPECT_THAT(bucket.store->list(""), IsEmpty());
  EXPECT_EQ(bucket.requests_of([&] { bucket.store->remove_all({}); }), 0U);
}

TEST(S3Store, RemovesOneByOneWhatABatchCannot) {
  Bucket bucket;
  const std::vector<std::string> keys = {"a", "b\x01", "c"};
  for (const auto& key : keys) bucket.server->put(key, "v");
  bucket.server->failing_removals["c"] = 1;
  EXPECT_EQ(bucket.requests_of([&] { bucket.store->remove_all(keys); }), 3U);
  EXPECT_THAT(bucket.store->list(""), IsEmpty());

  Bucket old;
  old.server->knows_batches = false;
  for (const auto& key : keys) old.server->put(key, "v");
  old.store->remove_all(keys);
  EXPECT_THAT(old.store->list(""), IsEmpty());
  EXPECT_EQ(old.requests_of([&] { old.store->remove_all({"x", "y"}); }), 2U) << "it is remembered";
}

TEST(S3Store, CopiesInsideTheStore) {
  Bucket bucket;
  bucket.store->write("a b", as_bytes("v"));
  EXPECT_TRUE(bucket.store->copy("a b", "c/d+e"));
  EXPECT_EQ(as_text(*bucket.store->read("c/d+e", {})), "v");
  EXPECT_FALSE(bucket.store->copy("none", "c"));
  bucket.server->fault = [](std::size_t, const HttpRequest&) {
    return S3Fault{testing::answer(501, testing::s3_error("NotImplemented"))};
  };
  EXPECT_FALSE(bucket.store->copy("a b", "c"));
  bucket.server->fault = [](std::size_t, const HttpRequest&) {
    return S3Fault{testing::answer(200, testing::s3_error("AccessDenied"))};
  };
  EXPECT_THAT([&] { bucket.store->copy("a b", "c"); }, FailsWith(Code::kIo, "200 AccessDenied"));
}

TEST(S3Store, UnexpectedAnswersAreErrors) {
  for (const int status : {201, 202, 302, 402, 405, 418, 599})
    for (const auto& [name, verb] : kVerbs) {
      if (std::string_view(name) == "copy" && status == 405) continue;  // "it cannot"
      if (std::string_view(name) == "remove_all" && status == 405) continue;
      Bucket bucket;
      bucket.server->fault = [&](std::size_t, const HttpRequest&) {
        return S3Fault{testing::answer(status)};
      };
      EXPECT_THAT(([&, call = verb] { call(*bucket.store); }),
                  FailsWith(Code::kIo, std::to_string(status)))
          << name;
    }
}

TEST(S3Address, PutsTheBucketIntoThePathOrTheHost) {
  const S3Address path{.origin = "http://h:9000/base", .bucket = "b"};
  EXPECT_EQ(path.url("r", "a b/c"), "http://h:9000/base/b/a%20b/c");
  EXPECT_EQ(path.url("r", "", {{"uploads", ""}, {"prefix", "a/b"}}),
            "http://h:9000/base/b?uploads&prefix=a%2Fb");
  const S3Address host{.origin = "http://h:9000", .bucket = "b", .path_style = false};
  EXPECT_EQ(host.url("r", "k"), "http://b.h:9000/k");
  EXPECT_EQ(host.url("r", "", {{"delete", ""}}), "http://b.h:9000/?delete");
  const S3Address amazon{.origin = "", .bucket = "b", .path_style = false};
  EXPECT_EQ(amazon.url("eu-west-3", "k"), "https://b.s3.eu-west-3.amazonaws.com/k");
  EXPECT_EQ(amazon.url("cn-north-1", "k"), "https://b.s3.cn-north-1.amazonaws.com.cn/k");
}

}  // namespace
}  // namespace cairn::object

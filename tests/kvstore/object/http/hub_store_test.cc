#include <cairn/io/tree/range_source.h>
#include <cairn/kvstore/object/http/hub_store.h>
#include <gmock/gmock.h>

#include <map>

#include "tests/kvstore/object/support/fake_hub.h"
#include "tests/support/matchers.h"

namespace cairn::object {
namespace {

using cairn::testing::FailsWith;
using ::testing::ElementsAre;
using testing::FakeHub;
using ::testing::HasSubstr;
using ::testing::Not;

class HubStoreTest : public ::testing::Test {
 protected:
  HubStoreTest() {
    hub_->files = {
        {"config.json", "{}"}, {"model/a b.bin", large_}, {"model/part/x", "xx"}, {"model2", "2"}};
  }
  StorePtr open(std::string_view url = "hf://me/model", const StoreOptions& options = {}) {
    return open_hub_store(
        url, options,
        {.environment = [this](const std::string& name) { return find_in(environment_, name); },
         .file = [this](const std::string& path) { return find_in(texts_, path); },
         .now_s = [] { return 0; },
         .transport = hub_});
  }
  static std::optional<std::string> find_in(const std::map<std::string, std::string>& texts,
                                            const std::string& name) {
    const auto it = texts.find(name);
    return it == texts.end() ? std::nullopt : std::optional(it->second);
  }
  static std::string read(const StorePtr& store, std::string_view key, ByteRange range = {}) {
    return std::string(as_text(store->read(key, range).value()));
  }

  std::string large_ = std::string(150, 'a') + std::string(150, 'b');
  std::map<std::string, std::string> environment_ = {{"HF_ENDPOINT", "https://hub.test/"},
                                                     {"HOME", "/home/me"}};
  std::map<std::string, std::string> texts_;
  std::shared_ptr<FakeHub> hub_ = std::make_shared<FakeHub>();
};

TEST_F(HubStoreTest, ReadsFilesOfACommit) {
  const StorePtr store = open();
  EXPECT_EQ(read(store, "config.json"), "{}");
  EXPECT_EQ(read(store, "model/a b.bin"), large_);
  EXPECT_EQ(read(store, "model/a b.bin", {149, 2}), "ab");
  EXPECT_EQ(store->size("model/a b.bin"), 300U);
  EXPECT_EQ(read(store, "config.json", {2, {}}), "");
  EXPECT_EQ(as_text(store->map("model2")->bytes), "2");
  Bytes out(3);
  EXPECT_TRUE(store->read_into("model/a b.bin", 147, out));
  EXPECT_EQ(as_text(out), "aaa");
  EXPECT_FALSE(store->read_into("none", 0, out));
  EXPECT_EQ(store->read("none", {}), std::nullopt);
  EXPECT_EQ(store->size("model"), std::nullopt);
  EXPECT_EQ(store->locate("config.json"), std::nullopt);
  EXPECT_EQ(hub_->count("GET https://hub.test/api/models/me/model/revision/main"), 1U);
}

TEST_F(HubStoreTest, RefusesRangesAndSizesBeforeItAsks) {
  const StorePtr store = open();
  EXPECT_THAT(
      [&] {
        read(store, "config.json", {3, {}});
      },
      FailsWith(Code::kOutOfRange, "hf://me/model@main/config.json"));
  EXPECT_THAT([&] { (void)store->read_at_most("model/a b.bin", 299); }, FailsWith(Code::kDataLoss));
  Bytes out(3);
  EXPECT_THAT([&] { store->read_into("config.json", 0, out); }, FailsWith(Code::kOutOfRange));
  EXPECT_EQ(hub_->count("GET https://network.test"), 0U);
}

TEST_F(HubStoreTest, KnowsAnAddressForMoreThanOneRead) {
  const StorePtr store = open();
  for (std::uint64_t at = 0; at < 10; ++at) (void)read(store, "model/a b.bin", {at, 5});
  EXPECT_EQ(hub_->count("HEAD"), 1U);
  EXPECT_EQ(hub_->count("GET https://network.test/1/model/a%20b.bin"), 10U);
}

TEST_F(HubStoreTest, AnExpiredAddressIsResolvedAgain) {
  const StorePtr store = open();
  (void)read(store, "model/a b.bin", {0, 5});
  hub_->expire();
  EXPECT_EQ(read(store, "model/a b.bin", {149, 2}), "ab");
  EXPECT_EQ(hub_->count("HEAD"), 2U);
}

TEST_F(HubStoreTest, ANetworkThatNeverGivesTheBytesIsAnError) {
  const StorePtr store = open();
  hub_->change_answer = [](HttpResponse& response) {
    if (response.status == 206) response = testing::answer(403, "<Error>");
  };
  const Error error = cairn::testing::error_of([&] { (void)read(store, "model/a b.bin", {0, 5}); });
  EXPECT_EQ(error.code(), Code::kIo);
  EXPECT_THAT(error.message(), HasSubstr("GET https://network.test/2/model/a%20b.bin: 403"));
  EXPECT_THAT(error.message(), Not(HasSubstr("s3cret")));
}

TEST_F(HubStoreTest, FollowsTheHubsOwnRedirects) {
  hub_->redirects_inside = true;
  EXPECT_EQ(read(open(), "config.json"), "{}");
}

TEST_F(HubStoreTest, RefusesOtherRedirects) {
  const auto size_after_redirect_to = [&](const std::string& to) {
    const StorePtr store = open();
    hub_->change_answer = [=](HttpResponse& response) {
      if (response.status == 302) response = testing::answer(302, "", {{"Location", to}});
    };
    return store->size("model/a b.bin");
  };
  for (const char* to : {"", "ftp://x", "https://", "https://user@network.test/x", "https://a b/"})
    EXPECT_THAT([&] { (void)size_after_redirect_to(to); }, FailsWith(Code::kIo, "does not follow"))
        << to;
  EXPECT_THAT([&] { (void)size_after_redirect_to("http://network.test/x"); },
              FailsWith(Code::kUnimplemented, "https:// to http://"));
  hub_->change_answer = [](HttpResponse& response) {
    response = response.status == 200 && !response.body.empty()
                   ? std::move(response)
                   : testing::answer(302, "", {{"Location", "https://hub.test/moved/config.json"}});
  };
  EXPECT_THAT([&] { (void)open()->size("config.json"); }, FailsWith(Code::kIo, "without end"));
}

TEST_F(HubStoreTest, AServerWithoutRangesIsReadWhole) {
  hub_->ignores_ranges = true;
  hub_->files["text"] = "0123456789";
  const StorePtr store = open();
  EXPECT_EQ(read(store, "text", {3, 4}), "3456");
  EXPECT_EQ(read(store, "text"), "0123456789");
}

TEST_F(HubStoreTest, Lists) {
  for (const std::size_t page : {1, 2, 1000}) {
    hub_->page_size = page;
    const StorePtr store = open();
    EXPECT_THAT(store->list(""),
                ElementsAre(ListEntry{"config.json", 2}, ListEntry{"model/a b.bin", 300},
                            ListEntry{"model/part/x", 2}, ListEntry{"model2", 1}));
    EXPECT_THAT(store->list("model/p"), ElementsAre(ListEntry{"model/part/x", 2}));
    EXPECT_TRUE(store->list("none/").empty());
    EXPECT_TRUE(store->list("a//b").empty());
    const StoreListing level = store->list_level("");
    EXPECT_THAT(level.folders, ElementsAre("model/"));
    EXPECT_EQ(level.values.size(), 2U);
    EXPECT_EQ(store->list_level("model/").values.size(), 1U);
    EXPECT_FALSE(store->list_values("", 2).is_whole);
  }
}

TEST_F(HubStoreTest, AListingThatDoesNotEndIsDamage) {
  hub_->change_answer = [](HttpResponse& response) {
    response.headers.add("Link", "<https://hub.test/api/models/me/model/tree/" +
                                     std::string(40, 'c') + "?recursive=true>; rel=\"next\"");
  };
  EXPECT_THAT([&] { (void)open()->list(""); }, FailsWith(Code::kIo, "does not end"));
}

TEST_F(HubStoreTest, OpensTheVersionOfAListing) {
  const StorePtr store = open();
  const StoreListing all = store->list_values("model/", 10);
  const auto source = store->open("model/a b.bin", all.values[0].version);
  EXPECT_EQ(source->size(), 300U);
  EXPECT_EQ(source->version(), all.values[0].version);
  Bytes out(2);
  source->read_into(149, out);
  EXPECT_EQ(as_text(out), "ab");
  EXPECT_EQ(store->open("model/part/x", all.values[1].version)->size(), 2U);
  EXPECT_THAT([&] { (void)store->open("config.json", "other"); }, FailsWith(Code::kUnavailable));
  EXPECT_EQ(store->open("none", ""), nullptr);
}

TEST_F(HubStoreTest, IsForReadingOnly) {
  const StorePtr store = open();
  EXPECT_THAT([&] { store->write("a", {}); }, FailsWith(Code::kUnimplemented, "hf://me/model"));
  EXPECT_THAT([&] { store->remove("a"); }, FailsWith(Code::kUnimplemented));
  EXPECT_THAT([&] { store->replace_if("a", std::nullopt, {}); }, FailsWith(Code::kUnimplemented));
  EXPECT_THAT([&] { (void)store->append("a"); }, FailsWith(Code::kUnimplemented));
  EXPECT_FALSE(store->copy("config.json", "b"));
}

TEST_F(HubStoreTest, RevisionsAndPathsAreThoseOfTheUrl) {
  EXPECT_EQ(read(open("hf://me/model@refs%2Fpr%2F1/model"), "part/x"), "xx");
  EXPECT_EQ(open("hf://me/model@refs%2Fpr%2F1/model")->describe("part/x"),
            "hf://me/model@refs/pr/1/model/part/x");
  EXPECT_THAT([&] { (void)open("hf://me/model@gone")->list(""); },
              FailsWith(Code::kNotFound, "repository 'me/model' has no revision 'gone'"));
  EXPECT_THAT([&] { (void)open("hf://me/other")->size("a"); }, FailsWith(Code::kNotFound));
}

TEST_F(HubStoreTest, TheTokenStaysAtTheHub) {
  hub_->token = "t0ken";
  EXPECT_THAT([&] { (void)open()->size("config.json"); }, FailsWith(Code::kIo, "HF_TOKEN"));
  environment_["HF_TOKEN"] = " t0ken\n";
  EXPECT_EQ(read(open(), "model/a b.bin"), large_);
  environment_.erase("HF_TOKEN");
  texts_["/home/me/.cache/huggingface/token"] = "t0ken\n";
  EXPECT_EQ(read(open(), "config.json"), "{}");
  environment_["HF_HOME"] = "/hf";
  EXPECT_THAT([&] { (void)open()->size("config.json"); }, FailsWith(Code::kIo));
  texts_["/hf/token"] = "t0ken";
  EXPECT_EQ(read(open(), "config.json"), "{}");
  EXPECT_THAT([&] { (void)open("hf://me/model", {.anonymous = true})->size("config.json"); },
              FailsWith(Code::kIo));
  texts_.clear();
  EXPECT_EQ(read(open("hf://me/model", {.credentials = StoreCredentials{.bearer_token = "t0ken"}}),
                 "config.json"),
            "{}");
}

TEST(OpenStore, KnowsTheHub) {
  EXPECT_EQ(open_store("hf://me/model@v1/x")->describe("a"), "hf://me/model@v1/x/a");
  EXPECT_THAT([] { (void)open_store("hf://model"); }, FailsWith(Code::kInvalidArgument, "hf://"));
}

TEST(HubUrl, IsParsed) {
  const HubUrl plain = parse_hub_url("hf://me/model");
  EXPECT_EQ(plain.kind, "models");
  EXPECT_EQ(plain.repository, "me/model");
  EXPECT_EQ(plain.revision, "main");
  EXPECT_EQ(plain.path, "");
  const HubUrl full = parse_hub_url("hf://datasets/me/data.v1@v1.0%2Fx/a%41/b/");
  EXPECT_EQ(full.kind, "datasets");
  EXPECT_EQ(full.repository, "me/data.v1");
  EXPECT_EQ(full.revision, "v1.0/x");
  EXPECT_EQ(full.path, "a%41/b");
  for (const char* bad :
       {"hf://", "hf:///model", "hf://me", "hf://me/", "s3://me/model", "hf://me/mo del",
        "hf://me/model@", "hf://me/model@%zz", "hf://me/model@a%2F..%2Fb", "hf://me/model@%00",
        "hf://me/model/a//b", "hf://me/model/../x", "hf://../model", "hf://datasets/me",
        "hf://me/model?x=y"})
    EXPECT_THAT([&] { parse_hub_url(bad); }, FailsWith(Code::kInvalidArgument, "URL")) << bad;
}

}  // namespace
}  // namespace cairn::object

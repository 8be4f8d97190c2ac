#include <cairn/io/tree/range_source.h>
#include <cairn/kvstore/object/gcs/open_gcs.h>
#include <gmock/gmock.h>

#include <map>

#include "tests/kvstore/object/support/fake_gcs.h"
#include "tests/support/matchers.h"

namespace cairn::object {
namespace {

using cairn::testing::FailsWith;
using testing::FakeGcs;

class OpenGcs : public ::testing::Test {
 protected:
  StorePtr open(const std::string& prefix = "", const StoreOptions& options = {}) {
    return open_gcs_store("bkt", prefix, options,
                          {.environment = [this](const std::string& name) { return of(name); },
                           .file = [](const std::string&) { return std::nullopt; },
                           .now_s = [] { return 0; },
                           .transport = fake_});
  }
  std::optional<std::string> of(const std::string& name) const {
    const auto it = environment_.find(name);
    return it == environment_.end() ? std::nullopt : std::optional(it->second);
  }

  std::map<std::string, std::string> environment_;
  std::shared_ptr<FakeGcs> fake_ = std::make_shared<FakeGcs>();
};

TEST_F(OpenGcs, TheEmulatorIsThatOfTheEnvironment) {
  for (const char* host : {"gcs.test", "http://gcs.test", "http://gcs.test/"}) {
    environment_["STORAGE_EMULATOR_HOST"] = host;
    open()->write("a", as_bytes("x"));
  }
  EXPECT_EQ(fake_->count("POST multipart a"), 3U);
}

TEST_F(OpenGcs, AnEndpointOfTheOptionsIsFirst) {
  environment_["STORAGE_EMULATOR_HOST"] = "elsewhere.test";
  open("", {.endpoint = "http://gcs.test"})->write("a", as_bytes("x"));
  EXPECT_EQ(fake_->bytes_of("a"), "x");
}

TEST_F(OpenGcs, KeysAreBelowThePrefix) {
  environment_["STORAGE_EMULATOR_HOST"] = "gcs.test";
  const StorePtr store = open("run/1");
  store->write("a", as_bytes("x"));
  EXPECT_EQ(fake_->bytes_of("run/1/a"), "x");
  fake_->store("run/1/", "");
  fake_->store("run/10", "");
  EXPECT_EQ(store->list("").size(), 1U);
  EXPECT_EQ(store->list_level("").values.size(), 1U);
  EXPECT_EQ(store->describe("a"), "gs://bkt/run/1/a");
  EXPECT_EQ(store->open("a", "")->size(), 1U);
}

TEST_F(OpenGcs, RefusesWhatIsNotAnEndpoint) {
  for (const char* bad : {"gcs.test", "ftp://gcs.test", "http://", "http://user@gcs.test",
                          "http://gcs.test?a=b", "http://gcs test", "http://gcs.test#x"})
    EXPECT_THAT([&] { open("", {.endpoint = bad}); }, FailsWith(Code::kInvalidArgument, "endpoint"))
        << bad;
  environment_["STORAGE_EMULATOR_HOST"] = "user@host";
  EXPECT_THAT([&] { open(); }, FailsWith(Code::kInvalidArgument, "STORAGE_EMULATOR_HOST"));
}

TEST_F(OpenGcs, ATokenOfTheOptionsIsSent) {
  environment_["STORAGE_EMULATOR_HOST"] = "gcs.test";
  fake_->token = "t0ken";
  open("", {.credentials = StoreCredentials{.bearer_token = "t0ken"}})->write("a", as_bytes("x"));
  EXPECT_THAT([&] { open()->write("a", as_bytes("x")); }, FailsWith(Code::kIo, "401"));
}

}  // namespace
}  // namespace cairn::object

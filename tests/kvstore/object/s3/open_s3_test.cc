// open_s3_test.cc -- opening s3:// with the keys and the endpoint of the surroundings.
#include <cairn/kvstore/object/s3/open_s3.h>
#include <gmock/gmock.h>

#include <map>

#include "tests/kvstore/object/support/fake_s3.h"
#include "tests/support/matchers.h"

namespace cairn::object {
namespace {

using cairn::testing::FailsWith;
using testing::FakeS3;

Surroundings with_environment(const std::shared_ptr<FakeS3>& server,
                              const std::map<std::string, std::string>& variables) {
  Surroundings surroundings;
  surroundings.environment = [variables](const std::string& name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  surroundings.file = [](const std::string&) { return std::nullopt; };
  surroundings.now_s = [] { return FakeS3::kNow; };
  surroundings.transport = server;
  return surroundings;
}

TEST(OpenS3, TakesKeysAndEndpointFromTheEnvironment) {
  const auto server = std::make_shared<FakeS3>();
  server->region = "eu-north-7";
  const auto store = open_s3_store("bucket", "a/b", {},
                                   with_environment(server, {{"AWS_ACCESS_KEY_ID", "key"},
                                                             {"AWS_SECRET_ACCESS_KEY", "secret"},
                                                             {"AWS_ENDPOINT_URL", "http://h:9"},
                                                             {"AWS_REGION", "eu-north-7"}}));
  store->write("c", as_bytes("v"));
  EXPECT_EQ(as_text(*store->read("c", {})), "v");
  EXPECT_EQ(server->requests(), 2U);
  EXPECT_EQ(server->log().front(), "PUT bucket/a/b/c");
  EXPECT_EQ(store->describe("c"), "s3://bucket/a/b/c");
}

TEST(OpenS3, PrefersTheOptions) {
  const auto server = std::make_shared<FakeS3>();
  const StoreOptions options{
      .endpoint = "http://h:9",
      .credentials = StoreCredentials{.access_key = "key", .secret_key = "secret"}};
  const auto surroundings = with_environment(server, {{"AWS_ACCESS_KEY_ID", "other"},
                                                      {"AWS_SECRET_ACCESS_KEY", "other"},
                                                      {"AWS_ENDPOINT_URL", "http://other"}});
  EXPECT_EQ(open_s3_store("bucket", "", options, surroundings)->size("k"), std::nullopt);
  StoreOptions anonymous = options;
  anonymous.anonymous = true;
  anonymous.credentials.reset();
  EXPECT_THAT([&] { (void)open_s3_store("bucket", "", anonymous, surroundings)->size("k"); },
              FailsWith(Code::kIo, "403 AccessDenied"));
}

TEST(OpenS3, RefusesAnEndpointThatIsNotAUrl) {
  const auto surroundings = with_environment(std::make_shared<FakeS3>(), {});
  EXPECT_THAT([&] { (void)open_s3_store("bucket", "", {.endpoint = "h:9"}, surroundings); },
              FailsWith(Code::kInvalidArgument));
}

}  // namespace
}  // namespace cairn::object

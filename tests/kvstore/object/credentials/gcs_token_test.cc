#include <cairn/base/base64.h>
#include <cairn/base/json/json.h>
#include <cairn/base/text.h>
#include <cairn/kvstore/object/credentials/gcs_token.h>
#include <gmock/gmock.h>

#include <map>

#include "tests/kvstore/object/support/rsa_key.h"
#include "tests/kvstore/object/support/scripted_transport.h"
#include "tests/support/damage.h"
#include "tests/support/matchers.h"

namespace cairn::object {
namespace {

using cairn::testing::FailsWith;
using ::testing::HasSubstr;
using ::testing::Not;

const JwtClaims kClaims = {.issuer = "me@project.iam.gserviceaccount.com",
                           .scope = "s",
                           .audience = "https://oauth2.googleapis.com/token",
                           .issued_s = 1700000000,
                           .expires_s = 1700003600};

// The signature is one of the openssl command.
TEST(Jwt, IsSigned) {
  EXPECT_EQ(signed_jwt(kClaims, {.pem = std::string(testing::kRsaKey), .id = "k1"}),
            "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6ImsxIn0.eyJpc3MiOiJtZUBwcm9qZWN0Lmlh"
            "bS5nc2VydmljZWFjY291bnQuY29tIiwic2NvcGUiOiJzIiwiYXVkIjoiaHR0cHM6Ly9vYXV0aDIuZ29v"
            "Z2xlYXBpcy5jb20vdG9rZW4iLCJpYXQiOjE3MDAwMDAwMDAsImV4cCI6MTcwMDAwMzYwMH0.EShRBLE_"
            "HXoS56XOK0u54t9ttycN5bw5crb8IRIAP_GwoPqA3YnhwwxGGQUjH36H7diQJQpFD_IDZHbBr1BsDuna"
            "kqpzolXNIEZxwaERekPMbgPI-Fdc7-t6fOASo_h1rtsD11H8bN4qDjV6zrQI0CWmU_CiouEfo4qrNlZ6"
            "U5I");
}

TEST(Jwt, NeedsAnRsaKey) {
  EXPECT_THAT([] { (void)signed_jwt(kClaims, {.pem = "secret"}); },
              FailsWith(Code::kInvalidArgument));
}

std::string account_file(std::string_view token_uri = "https://oauth2.test/token") {
  Json file;
  file.set("type", "service_account");
  file.set("client_email", "me@project");
  file.set("private_key", testing::kRsaKey);
  file.set("private_key_id", "k1");
  file.set("token_uri", token_uri);
  return to_text(file);
}

const std::string kUserFile =
    R"({"type": "authorized_user", "client_id": "id", "client_secret": "c/s", "refresh_token": "r"})";

TEST(GoogleCredentials, AreParsed) {
  const GoogleCredentials account = parse_google_credentials(account_file());
  EXPECT_EQ(account.account, "me@project");
  EXPECT_EQ(account.key.pem, testing::kRsaKey);
  EXPECT_EQ(account.token_url, "https://oauth2.test/token");
  const GoogleCredentials user = parse_google_credentials("\xef\xbb\xbf" + kUserFile);
  EXPECT_EQ(user.refresh_token, "r");
  EXPECT_EQ(user.token_url, "https://oauth2.googleapis.com/token");
}

TEST(GoogleCredentials, OtherTypesAreRefusedByName) {
  for (const std::string type : {"external_account", "impersonated_service_account", "gdch"})
    EXPECT_THAT([&] { parse_google_credentials(R"({"type": ")" + type + "\"}"); },
                FailsWith(Code::kUnimplemented, type));
}

TEST(GoogleCredentials, DamageIsRefusedWithoutTheSecret) {
  for (const char* bad : {"", "[]", "{}", "s3cret", "{\"type\": \"s3cret", R"({"type": 1})",
                          R"({"type": "service_account", "private_key": "s3cret"})",
                          R"({"type": "service_account", "client_email": "a"})",
                          R"({"type": "authorized_user", "refresh_token": "s3cret"})",
                          R"({"type": "authorized_user", "client_id": ["s3cret"]})"}) {
    const Error error = cairn::testing::error_of([&] { parse_google_credentials(bad); });
    EXPECT_EQ(error.code(), Code::kInvalidArgument) << bad;
    EXPECT_THAT(error.message(), Not(HasSubstr("s3cret"))) << bad;
  }
  for (const char* url : {"http://oauth2.test/token", "ftp://x", "https://a b", "file:///x"})
    EXPECT_THAT([&] { parse_google_credentials(account_file(url)); },
                FailsWith(Code::kInvalidArgument, "https://"));
  EXPECT_NO_THROW(parse_google_credentials(account_file("http://127.0.0.1:8080/token")));
}

TEST(TokenReply, IsParsed) {
  const TokenReply reply = parse_token_reply(
      R"({"access_token": "ya29.x", "expires_in": 3599, "token_type": "Bearer", "scope": "s"})");
  EXPECT_EQ(reply.token, "ya29.x");
  EXPECT_EQ(reply.lasts_s, 3599);
}

TEST(TokenReply, DamageIsRefusedWithoutTheToken) {
  for (const char* bad :
       {"", "[]", "{}", "s3cret", R"({"access_token": "s3cret)", R"({"access_token": "s3cret"})",
        R"({"access_token": "", "expires_in": 1})", R"({"access_token": 1, "expires_in": 1})",
        R"({"access_token": "s3cret x", "expires_in": 1})",
        R"({"access_token": "s3cret\nX: y", "expires_in": 1})",
        R"({"access_token": "s3cret", "expires_in": 0})",
        R"({"access_token": "s3cret", "expires_in": -5})",
        R"({"access_token": "s3cret", "expires_in": "3599"})",
        R"({"access_token": "s3cret", "expires_in": 99999999999})",
        R"({"access_token": "s3cret", "expires_in": 1e300})"}) {
    const Error error = cairn::testing::error_of([&] { parse_token_reply(bad); });
    EXPECT_EQ(error.code(), Code::kDataLoss) << bad;
    EXPECT_THAT(error.message(), Not(HasSubstr("s3cret"))) << bad;
  }
  const std::string good = R"({"access_token": "t", "expires_in": 1})";
  cairn::testing::for_each_truncation(as_bytes(good), [](ByteView bad, const std::string& what) {
    EXPECT_THAT([&] { parse_token_reply(as_text(bad)); }, FailsWith(Code::kDataLoss)) << what;
  });
}

// Token services, and the surroundings of a process that asks them.
class TokenServices : public HttpTransport {
 public:
  std::variant<HttpResponse, TransportError> send(const HttpRequest& request,
                                                  const HttpLimits& limits) override {
    urls.push_back(request.method + " " + request.url);
    body.clear();
    for (const ByteView part : request.body) body += as_text(part);
    last_limits = limits;
    headers = request.headers;
    if (is_down)
      return TransportError{.delivery = Delivery::kNotSent, .why = "the host is not known"};
    HttpResponse response = testing::answer(status, reply);
    if (!flavor.empty()) response.headers.add("Metadata-Flavor", flavor);
    return response;
  }
  // Of the nth token.
  void give(std::string_view token, std::int64_t lasts_s) {
    reply = R"({"access_token": ")" + std::string(token) + R"(", "expires_in": )" +
            std::to_string(lasts_s) + "}";
  }

  int status = 200;
  std::string reply;
  std::string flavor;
  bool is_down = false;
  std::vector<std::string> urls;
  std::string body;
  HttpHeaders headers;
  HttpLimits last_limits;
};

class GcsSigner : public ::testing::Test {
 protected:
  std::shared_ptr<Signer> find(const StoreOptions& options = {},
                               std::string_view endpoint = "https://storage.googleapis.com") {
    const Surroundings surroundings = {
        .environment = [this](const std::string& name) { return find_in(environment_, name); },
        .file = [this](const std::string& path) { return find_in(files_, path); },
        .now_s = [this] { return now_s_; },
        .transport = services_};
    return find_gcs_signer(options, endpoint, surroundings, clock_.policy());
  }
  static std::optional<std::string> find_in(const std::map<std::string, std::string>& texts,
                                            const std::string& name) {
    const auto it = texts.find(name);
    return it == texts.end() ? std::nullopt : std::optional(it->second);
  }
  // "": none
  static std::string header_of(Signer& signer) {
    HttpRequest request;
    signer.sign(request);
    return std::string(request.headers.find("authorization").value_or(""));
  }

  std::map<std::string, std::string> environment_ = {{"HOME", "/home/me"}};
  std::map<std::string, std::string> files_;
  std::int64_t now_s_ = 1700000000;
  std::shared_ptr<TokenServices> services_ = std::make_shared<TokenServices>();
  testing::StillClock clock_;
};

TEST_F(GcsSigner, AnonymousOptionsNeedNone) {
  EXPECT_EQ(find({.anonymous = true, .credentials = StoreCredentials{.bearer_token = "t"}}),
            nullptr);
}

TEST_F(GcsSigner, ATokenOfTheOptionsIsFirst) {
  environment_["GOOGLE_APPLICATION_CREDENTIALS"] = "/none";
  const StoreOptions options = {.credentials = StoreCredentials{.bearer_token = "t"}};
  EXPECT_EQ(header_of(*find(options)), "Bearer t");
  EXPECT_EQ(header_of(*find(options, "http://127.0.0.1:4443")), "Bearer t");
  EXPECT_FALSE(find(options)->refresh());
  EXPECT_THAT([&] { find({.credentials = StoreCredentials{.bearer_token = "a\r\nb"}}); },
              FailsWith(Code::kInvalidArgument));
}

TEST_F(GcsSigner, FoundCredentialsAreNotForClearText) {
  environment_["GOOGLE_APPLICATION_CREDENTIALS"] = "/key.json";
  files_["/key.json"] = account_file();
  EXPECT_EQ(find({}, "http://127.0.0.1:4443"), nullptr);
}

TEST_F(GcsSigner, AServiceAccountSignsForItsToken) {
  environment_["GOOGLE_APPLICATION_CREDENTIALS"] = "/key.json";
  files_["/key.json"] = account_file();
  services_->give("one", 3600);
  const auto signer = find();
  EXPECT_TRUE(services_->urls.empty()) << "nothing is asked for before the first request";
  EXPECT_EQ(header_of(*signer), "Bearer one");
  EXPECT_EQ(services_->urls.back(), "POST https://oauth2.test/token");
  EXPECT_EQ(services_->headers.find("content-type"), "application/x-www-form-urlencoded");
  constexpr std::string_view kBefore =
      "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=";
  ASSERT_TRUE(services_->body.starts_with(kBefore));
  const auto parts = split(std::string_view(services_->body).substr(kBefore.size()), '.');
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(
      as_text(*decode_base64(parts[1], Base64::kUrlSafe)),
      R"({"iss":"me@project","scope":"https://www.googleapis.com/auth/devstorage.read_write",)"
      R"("aud":"https://oauth2.test/token","iat":1700000000,"exp":1700003600})");
}

TEST_F(GcsSigner, AUserHasARefreshToken) {
  files_["/home/me/.config/gcloud/application_default_credentials.json"] = kUserFile;
  services_->give("two", 3600);
  EXPECT_EQ(header_of(*find()), "Bearer two");
  EXPECT_EQ(services_->urls.back(), "POST https://oauth2.googleapis.com/token");
  EXPECT_EQ(services_->body,
            "grant_type=refresh_token&client_id=id&client_secret=c%2Fs&refresh_token=r");
  environment_["CLOUDSDK_CONFIG"] = "/other";
  services_->is_down = true;
  EXPECT_EQ(header_of(*find()), "") << "the file is looked for elsewhere";
}

TEST_F(GcsSigner, AFileThatIsNamedMustExist) {
  environment_["GOOGLE_APPLICATION_CREDENTIALS"] = "/none.json";
  EXPECT_THAT([&] { find(); }, FailsWith(Code::kNotFound, "GOOGLE_APPLICATION_CREDENTIALS"));
  files_["/none.json"] = R"({"type": "external_account"})";
  EXPECT_THAT([&] { find(); }, FailsWith(Code::kUnimplemented, "/none.json: credentials of type"));
}

TEST_F(GcsSigner, AMachineOfGoogleHasAToken) {
  services_->give("three", 3600);
  services_->flavor = "Google";
  EXPECT_EQ(header_of(*find()), "Bearer three");
  EXPECT_EQ(services_->urls.back(),
            "GET http://metadata.google.internal/computeMetadata/v1/"
            "instance/service-accounts/default/token");
  EXPECT_EQ(services_->headers.find("metadata-flavor"), "Google");
  EXPECT_LE(services_->last_limits.connect_timeout, std::chrono::seconds(1));
  environment_["GCE_METADATA_HOST"] = "127.0.0.1:99";
  (void)header_of(*find());
  EXPECT_THAT(services_->urls.back(), HasSubstr("http://127.0.0.1:99/computeMetadata/"));
}

TEST_F(GcsSigner, ElsewhereRequestsAreAnonymous) {
  services_->is_down = true;
  const auto signer = find();
  EXPECT_EQ(header_of(*signer), "");
  const std::size_t asked = services_->urls.size();
  EXPECT_EQ(header_of(*signer), "");
  EXPECT_EQ(services_->urls.size(), asked) << "it is not asked again";
  EXPECT_FALSE(signer->refresh());
  EXPECT_LE(clock_.passed, std::chrono::seconds(1));
  services_->is_down = false;
  services_->give("forged", 3600);
  EXPECT_EQ(header_of(*find()), "") << "the server is not Google's";
  services_->flavor = "Google";
  services_->status = 404;
  EXPECT_EQ(header_of(*find()), "") << "the machine has no account";
}

TEST_F(GcsSigner, ATokenIsFetchedBeforeItExpires) {
  files_["/home/me/.config/gcloud/application_default_credentials.json"] = kUserFile;
  services_->give("one", 3600);
  const auto signer = find();
  EXPECT_EQ(header_of(*signer), "Bearer one");
  services_->give("two", 3600);
  now_s_ += 3000;
  EXPECT_EQ(header_of(*signer), "Bearer one");
  now_s_ += 500;
  EXPECT_EQ(header_of(*signer), "Bearer two");
  EXPECT_EQ(services_->urls.size(), 2U);
}

TEST_F(GcsSigner, AServiceThatIsDownDoesNotSpoilAValidToken) {
  files_["/home/me/.config/gcloud/application_default_credentials.json"] = kUserFile;
  services_->give("one", 3600);
  const auto signer = find();
  (void)header_of(*signer);
  services_->status = 400;
  services_->reply = R"({"error": "invalid_grant", "error_description": "s3cret"})";
  now_s_ += 3500;
  EXPECT_EQ(header_of(*signer), "Bearer one");
  now_s_ += 100;
  const Error error = cairn::testing::error_of([&] { (void)header_of(*signer); });
  EXPECT_THAT(error.message(), HasSubstr("400 invalid_grant"));
  EXPECT_THAT(error.message(), Not(HasSubstr("s3cret")));
}

TEST_F(GcsSigner, ARefusedTokenIsFetchedAgain) {
  files_["/home/me/.config/gcloud/application_default_credentials.json"] = kUserFile;
  services_->give("one", 3600);
  const auto signer = find();
  (void)header_of(*signer);
  services_->give("two", 3600);
  EXPECT_TRUE(signer->refresh());
  EXPECT_EQ(header_of(*signer), "Bearer two");
}

}  // namespace
}  // namespace cairn::object

// The order of the sources, their renewal, and that no message shows a secret.
#include <cairn/kvstore/object/credentials/aws_credentials.h>
#include <gmock/gmock.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/kvstore/object/support/scripted_transport.h"
#include "tests/support/matchers.h"

namespace cairn::object {
namespace {

using cairn::testing::error_of;
using cairn::testing::FailsWith;
using testing::answer;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::ScriptedTransport;
using testing::StillClock;

constexpr std::int64_t kMachineTime = 1'795'870'000;  // 2026-11-28, 12:46:40

std::string keys_in_json(const std::string& name, const std::string& expiration = "") {
  return R"({"AccessKeyId": "id-)" + name + R"(", "SecretAccessKey": "SECRET-)" + name +
         R"(", "Token": "SECRET-token")" +
         (expiration.empty() ? "" : R"(, "Expiration": ")" + expiration + "\"") + "}";
}

std::string keys_in_xml(const std::string& name) {
  return "<R><AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>id-" + name +
         "</AccessKeyId><SecretAccessKey>SECRET</SecretAccessKey><SessionToken>SECRET"
         "</SessionToken></Credentials></AssumeRoleWithWebIdentityResult></R>";
}

TransportError no_service() { return {.delivery = Delivery::kNotSent, .why = "no route"}; }

// A machine with the variables, files and answers of a test.
struct Machine {
  std::map<std::string, std::string> variables = {{"HOME", "/home/u"}};
  std::map<std::string, std::string> files = {};
  std::shared_ptr<ScriptedTransport> network =
      std::make_shared<ScriptedTransport>(std::deque<Outcome>{});
  std::int64_t now_s = kMachineTime;
  std::vector<std::vector<std::string>> programs = {};
  std::string output = {};
  StoreOptions options = {};
  StillClock clock = {};
  AwsSource keys_from = AwsSource::kFirst;

  void answers(std::deque<Outcome> outcomes) {
    network = std::make_shared<ScriptedTransport>(std::move(outcomes));
  }

  Surroundings surroundings() {
    return {.environment = [this](const std::string& name) { return found(variables, name); },
            .file = [this](const std::string& path) { return found(files, path); },
            .now_s = [this] { return now_s; },
            .transport = network,
            .run =
                [this](const std::vector<std::string>& command) {
                  programs.push_back(command);
                  return output;
                },
            .keys_from = keys_from};
  }
  std::shared_ptr<AwsCredentials> find() {
    return find_aws_credentials(options, surroundings(), clock.policy(std::chrono::seconds(1)));
  }
  // "id from source"; "none" if requests go unsigned.
  std::string found_key() {
    const auto credentials = find();
    const auto keys = credentials->get();
    return keys ? keys->access_key + " from " + credentials->source() : "none";
  }
  AwsEndpoint endpoint() { return find_aws_endpoint(options, surroundings()); }

  static std::optional<std::string> found(const std::map<std::string, std::string>& map,
                                          const std::string& name) {
    const auto at = map.find(name);
    return at == map.end() ? std::nullopt : std::optional(at->second);
  }
};

const std::string kKeysFile =
    "[default]\naws_access_key_id = id-file\n"
    "aws_secret_access_key = SECRET\n";

TEST(AwsCredentials, AreLookedForInOrder) {
  // From the last source to the first: each one that is added is the one that is used.
  Machine machine;
  machine.answers({no_service()});
  EXPECT_EQ(machine.found_key(), "none");
  machine.answers({answer(200, "token"), answer(200, "role\n"), answer(200, keys_in_json("ec2"))});
  EXPECT_EQ(machine.found_key(), "id-ec2 from the instance metadata");
  machine.variables["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = "http://127.0.0.1:99/keys?SECRET";
  machine.answers({answer(200, keys_in_json("box"))});
  EXPECT_EQ(machine.found_key(), "id-box from the container");
  machine.files["/home/u/.aws/credentials"] = kKeysFile;
  EXPECT_EQ(machine.found_key(), "id-file from profile default");
  machine.variables["AWS_WEB_IDENTITY_TOKEN_FILE"] = "/token";
  machine.variables["AWS_ROLE_ARN"] = "arn:aws:iam::1:role/r";
  machine.files["/token"] = "SECRET\n";
  machine.answers({answer(200, keys_in_xml("web"))});
  EXPECT_EQ(machine.found_key(), "id-web from AWS_WEB_IDENTITY_TOKEN_FILE");
  machine.variables["AWS_ACCESS_KEY_ID"] = "id-env";
  machine.variables["AWS_SECRET_ACCESS_KEY"] = "SECRET";
  EXPECT_EQ(machine.found_key(), "id-env from AWS_ACCESS_KEY_ID");
  machine.options.profile = "default";
  EXPECT_EQ(machine.found_key(), "id-file from profile default");
  machine.options.credentials = StoreCredentials{.access_key = "id-given", .secret_key = "SECRET"};
  EXPECT_EQ(machine.found_key(), "id-given from StoreOptions::credentials");
  machine.options.anonymous = true;
  EXPECT_EQ(machine.found_key(), "none");
}

TEST(AwsCredentials, ASelectedSourceIsTheOnlyOne) {
  Machine machine;
  machine.variables["AWS_ACCESS_KEY_ID"] = "id-env";
  machine.variables["AWS_SECRET_ACCESS_KEY"] = "SECRET";
  machine.variables["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = "http://127.0.0.1:99/keys";
  machine.files["/home/u/.aws/credentials"] = kKeysFile;
  machine.options.credentials = StoreCredentials{.access_key = "id-given", .secret_key = "SECRET"};
  machine.keys_from = AwsSource::kEnvironment;
  EXPECT_EQ(machine.found_key(), "id-env from AWS_ACCESS_KEY_ID");
  machine.keys_from = AwsSource::kProfile;
  EXPECT_EQ(machine.found_key(), "id-file from profile default");
  machine.keys_from = AwsSource::kContainer;
  machine.answers({answer(200, keys_in_json("box"))});
  EXPECT_EQ(machine.found_key(), "id-box from the container");
  machine.keys_from = AwsSource::kInstance;
  machine.answers({answer(200, "token"), answer(200, "role\n"), answer(200, keys_in_json("ec2"))});
  EXPECT_EQ(machine.found_key(), "id-ec2 from the instance metadata");
  // Never an unsigned request instead, but for who wants that.
  machine.answers({no_service()});
  EXPECT_THAT([&] { machine.found_key(); },
              FailsWith(Code::kFailedPrecondition, "the instance metadata: there are none"));
  machine.options.anonymous = true;
  EXPECT_EQ(machine.found_key(), "none");
  machine.options = {};
  machine.variables = {{"HOME", "/home/u"}, {"AWS_EC2_METADATA_DISABLED", "true"}};
  machine.files.clear();
  for (const AwsSource source : {AwsSource::kEnvironment, AwsSource::kProfile,
                                 AwsSource::kContainer, AwsSource::kInstance}) {
    machine.keys_from = source;
    EXPECT_THAT([&] { (void)machine.find(); },
                FailsWith(Code::kFailedPrecondition, "no credentials"));
  }
}

TEST(AwsCredentials, OfTheEnvironmentHaveATokenAndBothKeys) {
  Machine machine;
  machine.variables["AWS_ACCESS_KEY_ID"] = "id";
  machine.variables["AWS_SECRET_ACCESS_KEY"] = "SECRET";
  machine.variables["AWS_SESSION_TOKEN"] = "t";
  EXPECT_EQ(machine.find()->get()->session_token, "t");
  EXPECT_FALSE(machine.find()->refresh());
  machine.variables.erase("AWS_ACCESS_KEY_ID");
  EXPECT_THAT([&] { (void)machine.find(); },
              FailsWith(Code::kInvalidArgument, "only one of them is set"));
  machine.variables["AWS_ACCESS_KEY_ID"] = "a b";
  EXPECT_THAT([&] { (void)machine.find(); }, FailsWith(Code::kInvalidArgument, "access key"));
}

TEST(AwsCredentials, OfAWebIdentityComeFromTheTokenService) {
  Machine machine;
  machine.variables = {{"AWS_WEB_IDENTITY_TOKEN_FILE", "/token"},
                       {"AWS_ROLE_ARN", "arn:aws:iam::1:role/a b"},
                       {"AWS_ROLE_SESSION_NAME", "me"},
                       {"AWS_REGION", "eu-west-1"}};
  machine.files["/token"] = "TOK.E+N\n";
  machine.answers({answer(503), answer(200, keys_in_xml("web"))});
  const auto credentials = machine.find();
  EXPECT_TRUE(machine.network->requests.empty());
  EXPECT_EQ(credentials->get()->access_key, "id-web");
  const HttpRequest& request = machine.network->requests.at(1);
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.url, "https://sts.eu-west-1.amazonaws.com/");
  EXPECT_EQ(request.headers.find("Authorization"), std::nullopt);
  machine.variables["AWS_ENDPOINT_URL_STS"] = "http://sts:1/";
  machine.answers({answer(400,
                          "<ErrorResponse><Error><Code>InvalidIdentityToken</Code>"
                          "<Message>TOK.E+N</Message></Error></ErrorResponse>")});
  const Error error = error_of([&] { (void)machine.find()->get(); });
  EXPECT_EQ(error.message(),
            "credentials of AWS_WEB_IDENTITY_TOKEN_FILE: POST http://sts:1/: 400 "
            "InvalidIdentityToken");
  machine.files.clear();
  EXPECT_THAT([&] { (void)machine.find()->get(); },
              FailsWith(Code::kNotFound, "/token: no such file"));
  machine.variables.erase("AWS_ROLE_ARN");
  EXPECT_THAT([&] { (void)machine.find(); }, FailsWith(Code::kInvalidArgument, "AWS_ROLE_ARN"));
}

TEST(AwsCredentials, OfAProfileComeFromBothFiles) {
  Machine machine;
  machine.variables["AWS_PROFILE"] = "dev";
  machine.variables["AWS_SHARED_CREDENTIALS_FILE"] = "~/keys";
  machine.variables["AWS_CONFIG_FILE"] = "/etc/aws";
  machine.files["/home/u/keys"] = "[dev]\naws_access_key_id = id-dev\n";
  machine.files["/etc/aws"] =
      "[profile dev]\naws_access_key_id = id-other\naws_secret_access_key = SECRET\n";
  EXPECT_EQ(machine.found_key(), "id-dev from profile dev");
  machine.options.profile = "other";
  EXPECT_THAT([&] { (void)machine.find(); },
              FailsWith(Code::kInvalidArgument, "no profile other in the shared"));
  machine.options.profile = "";
  machine.files["/etc/aws"] = "[profile dev]\nSECRET\n";
  EXPECT_EQ(error_of([&] { (void)machine.find(); }).message(),
            "/etc/aws: line 2: expected [section] or name = value");
  machine.files["/etc/aws"] = "[profile dev]\n";
  EXPECT_THAT([&] { (void)machine.find(); },
              FailsWith(Code::kInvalidArgument, "profile dev: the secret key is empty"));
}

TEST(AwsCredentials, OfAFileAreReadAgainOnceTheyAreRefused) {
  Machine machine;
  machine.files["/home/u/.aws/credentials"] = kKeysFile;
  const auto credentials = machine.find();
  EXPECT_EQ(credentials->get()->access_key, "id-file");
  machine.now_s += 60;
  EXPECT_FALSE(credentials->refresh());
  machine.files["/home/u/.aws/credentials"] =
      "[default]\naws_access_key_id = id-new\naws_secret_access_key = SECRET\n";
  EXPECT_EQ(credentials->get()->access_key, "id-file");
  machine.now_s += 60;
  EXPECT_TRUE(credentials->refresh());
  EXPECT_EQ(credentials->get()->access_key, "id-new");
}

TEST(AwsCredentials, OfAProgramAreItsOutput) {
  Machine machine;
  machine.files["/home/u/.aws/config"] = "[default]\ncredential_process = \"/opt/my tool\" --x 1\n";
  machine.output = keys_in_json("program");
  EXPECT_EQ(machine.found_key(), "id-program from credential_process of profile default");
  EXPECT_THAT(machine.programs, ElementsAre(ElementsAre("/opt/my tool", "--x", "1")));
  machine.output = "SECRET";
  const Error error = error_of([&] { (void)machine.find()->get(); });
  EXPECT_EQ(error.code(), Code::kDataLoss);
  EXPECT_THAT(error.message(), Not(HasSubstr("SECRET")));
  machine.files["/home/u/.aws/config"] = "[default]\ncredential_process = \"a\n";
  EXPECT_THAT([&] { (void)machine.find(); },
              FailsWith(Code::kInvalidArgument, "credential_process is not a command"));
}

TEST(AwsCredentials, OfSingleSignOnAndAssumedRolesAreRefusedByName) {
  Machine machine;
  for (const auto& [line, what] :
       {std::pair<std::string, std::string>{"sso_session = s", "uses single sign-on"},
        {"sso_start_url = https://x", "uses single sign-on"},
        {"role_arn = arn\nsource_profile = p", "assumes a role"}}) {
    machine.files["/home/u/.aws/config"] = "[default]\n" + line + "\n";
    const Error error = error_of([&] { (void)machine.find(); });
    EXPECT_EQ(error.code(), Code::kUnimplemented);
    EXPECT_THAT(error.message(), HasSubstr("profile default " + what));
    EXPECT_THAT(error.message(),
                HasSubstr("aws configure export-credentials --profile default --format env"));
  }
}

TEST(AwsCredentials, OfAContainerAreAskedForWithItsToken) {
  Machine machine;
  machine.variables["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"] = "/v2/keys";
  machine.variables["AWS_CONTAINER_AUTHORIZATION_TOKEN"] = "SECRET-a";
  machine.answers({answer(200, keys_in_json("box"))});
  EXPECT_EQ(machine.found_key(), "id-box from the container");
  EXPECT_EQ(machine.network->requests.at(0).url, "http://169.254.170.2/v2/keys");
  EXPECT_EQ(machine.network->requests.at(0).headers.find("Authorization"), "SECRET-a");
  machine.variables["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"] = "/token";
  machine.files["/token"] = "SECRET-b\n";
  machine.answers({answer(404, "SECRET")});
  EXPECT_EQ(error_of([&] { (void)machine.find()->get(); }).message(),
            "credentials of the container: GET http://169.254.170.2/v2/keys: 404");
  EXPECT_EQ(machine.network->requests.at(0).headers.find("Authorization"), "SECRET-b");
}

TEST(AwsCredentials, OfAContainerDoNotLeaveTheMachineInClearText) {
  Machine machine;
  const std::string url = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
  machine.variables["AWS_CONTAINER_AUTHORIZATION_TOKEN"] = "SECRET";
  for (const char* good :
       {"http://127.0.0.1:80/x", "http://127.1.2.3", "http://localhost/x", "http://[::1]:1/x",
        "http://169.254.170.23/v1", "http://[fd00:ec2::23]/v1", "https://example.com/x"}) {
    machine.variables[url] = good;
    machine.answers({answer(200, keys_in_json("box"))});
    EXPECT_EQ(machine.found_key(), "id-box from the container") << good;
  }
  for (const char* bad : {"http://example.com/x", "http://127.0.0.1.example.com/x",
                          "http://127.0.0.1@example.com/", "http://localhost.example.com",
                          "http://[::2]/x", "http://127/x", "ftp://127.0.0.1/x", "x"}) {
    machine.variables[url] = bad;
    machine.answers({});
    EXPECT_THAT([&] { (void)machine.find()->get(); },
                FailsWith(Code::kInvalidArgument, "must be https://, or lead to this machine"))
        << bad;
  }
}

TEST(AwsCredentials, OfAnInstanceNeedATokenFirst) {
  Machine machine;
  machine.answers({answer(200, "T"), answer(200, "my role\n"), answer(200, "my-role\nx")});
  EXPECT_EQ(machine.found_key(), "none");  // a role is one word
  machine.answers({answer(200, "T"), answer(200, "my-role\nx"), answer(200, keys_in_json("ec2"))});
  EXPECT_EQ(machine.found_key(), "id-ec2 from the instance metadata");
  const auto& requests = machine.network->requests;
  EXPECT_EQ(requests.at(0).method, "PUT");
  EXPECT_EQ(requests.at(0).url, "http://169.254.169.254/latest/api/token");
  EXPECT_EQ(requests.at(0).headers.find("X-aws-ec2-metadata-token-ttl-seconds"), "21600");
  EXPECT_EQ(requests.at(1).headers.find("X-aws-ec2-metadata-token"), "T");
  EXPECT_EQ(requests.at(2).url,
            "http://169.254.169.254/latest/meta-data/iam/security-credentials/my-role");
}

TEST(AwsCredentials, OfAnInstanceMayBeMissing) {
  Machine machine;
  for (const Outcome& first :
       {Outcome(no_service()),
        Outcome(
            TransportError{.delivery = Delivery::kMaybeSent, .is_timeout = true, .why = "slow"}),
        Outcome(answer(404)), Outcome(answer(403)), Outcome(answer(200, ""))}) {
    machine.answers({first});
    EXPECT_EQ(machine.found_key(), "none");
    EXPECT_EQ(machine.network->left(), 0U);
  }
  machine.answers({answer(200, "T"), answer(404)});
  EXPECT_EQ(machine.found_key(), "none");
  machine.answers({answer(500)});
  EXPECT_THAT([&] { (void)machine.find()->get(); }, FailsWith(Code::kIo, "api/token: 500"));
  machine.variables["AWS_EC2_METADATA_DISABLED"] = "true";
  machine.answers({});
  EXPECT_EQ(machine.found_key(), "none");
}

TEST(AwsCredentials, OfAnInstanceComeFromTheGivenAddress) {
  Machine machine;
  machine.variables["AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE"] = "IPv6";
  machine.answers({no_service()});
  (void)machine.found_key();
  EXPECT_THAT(machine.network->requests.at(0).url, HasSubstr("http://[fd00:ec2::254]/latest"));
  machine.variables["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = "http://127.0.0.1:9/";
  machine.answers({no_service()});
  (void)machine.found_key();
  EXPECT_THAT(machine.network->requests.at(0).url, HasSubstr("http://127.0.0.1:9/latest"));
}

TEST(AwsCredentials, AreFetchedAgainBeforeTheyExpire) {
  Machine machine;
  machine.variables["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"] = "/k";
  const std::string in_1000_s = "2026-11-28T13:03:20Z";
  machine.answers({answer(200, keys_in_json("1", in_1000_s)), answer(403),
                   answer(200, keys_in_json("2", "2026-11-28T14:00:00Z"))});
  const auto credentials = machine.find();
  EXPECT_EQ(credentials->get()->access_key, "id-1");
  machine.now_s = kMachineTime + 699;
  EXPECT_EQ(credentials->get()->access_key, "id-1");
  EXPECT_EQ(machine.network->left(), 2U);
  machine.now_s = kMachineTime + 700;  // five minutes before their end; the service refuses
  EXPECT_EQ(credentials->get()->access_key, "id-1");
  EXPECT_EQ(machine.network->left(), 1U);
  EXPECT_EQ(credentials->get()->access_key, "id-1");
  machine.now_s = kMachineTime + 710;
  EXPECT_EQ(credentials->get()->access_key, "id-2");
  EXPECT_EQ(machine.network->left(), 0U);
}

TEST(AwsCredentials, ThatHaveExpiredAreNotUsed) {
  Machine machine;
  machine.variables["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"] = "/k";
  machine.answers({answer(200, keys_in_json("1", "2026-11-28T13:03:20Z")), answer(403)});
  const auto credentials = machine.find();
  (void)credentials->get();
  machine.now_s = kMachineTime + 1000;
  EXPECT_THAT([&] { (void)credentials->get(); },
              FailsWith(Code::kIo, "credentials of the container"));
}

TEST(AwsCredentials, AreFetchedOnceForAllThreadsThatWereRefused) {
  Machine machine;
  machine.variables["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"] = "/k";
  machine.answers({answer(200, keys_in_json("1")), answer(200, keys_in_json("2"))});
  const auto credentials = machine.find();
  (void)credentials->get();
  machine.now_s += 3600;
  EXPECT_TRUE(credentials->refresh());
  EXPECT_TRUE(credentials->refresh());
  EXPECT_EQ(credentials->get()->access_key, "id-2");
  EXPECT_EQ(machine.network->requests.size(), 2U);
}

TEST(AwsEndpoint, ComesFromTheFirstPlaceThatNamesIt) {
  Machine machine;
  EXPECT_EQ(machine.endpoint().endpoint, "");
  EXPECT_EQ(machine.endpoint().region, "us-east-1");
  EXPECT_FALSE(machine.endpoint().path_style);
  machine.files["/home/u/.aws/config"] =
      "[default]\nregion = r-file\nendpoint_url = http://file\nservices = mine\n"
      "ca_bundle = /ca-file\n";
  EXPECT_EQ(machine.endpoint().endpoint, "http://file");
  EXPECT_EQ(machine.endpoint().region, "r-file");
  EXPECT_EQ(machine.endpoint().ca_file, "/ca-file");
  EXPECT_TRUE(machine.endpoint().path_style);
  machine.files["/home/u/.aws/config"] +=
      "s3 =\n  addressing_style = virtual\n[services mine]\ns3 =\n  endpoint_url = http://mine\n";
  EXPECT_EQ(machine.endpoint().endpoint, "http://mine");
  EXPECT_FALSE(machine.endpoint().path_style);
  machine.variables["AWS_ENDPOINT_URL"] = "http://env/";
  machine.variables["AWS_DEFAULT_REGION"] = "r-default";
  EXPECT_EQ(machine.endpoint().endpoint, "http://env");
  EXPECT_EQ(machine.endpoint().region, "r-default");
  machine.variables["AWS_ENDPOINT_URL_S3"] = "https://s3.env:9000";
  machine.variables["AWS_REGION"] = "r-env";
  machine.variables["AWS_CA_BUNDLE"] = "/ca-env";
  EXPECT_EQ(machine.endpoint().endpoint, "https://s3.env:9000");
  EXPECT_EQ(machine.endpoint().region, "r-env");
  EXPECT_EQ(machine.endpoint().ca_file, "/ca-env");
  machine.variables["AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"] = "true";
  EXPECT_EQ(machine.endpoint().endpoint, "");
  machine.options = {.endpoint = "http://given:1", .region = "r-given"};
  machine.options.path_style = true;
  machine.options.ca_file = "/ca-given";
  EXPECT_EQ(machine.endpoint().endpoint, "http://given:1");
  EXPECT_EQ(machine.endpoint().region, "r-given");
  EXPECT_EQ(machine.endpoint().ca_file, "/ca-given");
  EXPECT_TRUE(machine.endpoint().path_style);
}

TEST(AwsEndpoint, OfAmazonHasAHostForEachBucket) {
  Machine machine;
  for (const auto& [endpoint, is_path] :
       {std::pair<std::string, bool>{"https://s3.eu-west-1.amazonaws.com", false},
        {"https://s3.cn-north-1.amazonaws.com.cn", false},
        {"https://amazonaws.com.example.org", true},
        {"http://localhost:9000", true}}) {
    machine.options.endpoint = endpoint;
    EXPECT_EQ(machine.endpoint().path_style, is_path) << endpoint;
  }
}

TEST(AwsEndpoint, RefusesOtherUrlsWithoutShowingThem) {
  Machine machine;
  for (const char* url : {"localhost:9000", "ftp://SECRET", "http://u:SECRET@h", "http://h/SECRET",
                          "http://h?SECRET", "http://", "http://h SECRET", "http://h\\SECRET"}) {
    machine.variables["AWS_ENDPOINT_URL"] = url;
    const Error error = error_of([&] { (void)machine.endpoint(); });
    EXPECT_EQ(error.code(), Code::kInvalidArgument) << url;
    EXPECT_THAT(error.message(), HasSubstr("the endpoint of AWS_ENDPOINT_URL is not"));
    EXPECT_THAT(error.message(), Not(HasSubstr("SECRET")));
  }
  machine.variables.erase("AWS_ENDPOINT_URL");
  machine.variables["AWS_REGION"] = "evil.example.com/";
  EXPECT_THAT([&] { (void)machine.endpoint(); },
              FailsWith(Code::kInvalidArgument, "the region of AWS_REGION is not"));
}

}  // namespace
}  // namespace cairn::object

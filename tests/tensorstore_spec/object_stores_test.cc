// object_stores_test.cc -- specs with the drivers gcs, s3 and http: where requests go, with which
// keys, and what is refused. Fakes answer. Real servers: tests/interop/stores/test_specs.py.
#include <cairn/tensorstore_spec/members.h>
#include <cairn/tensorstore_spec/store_location.h>
#include <gmock/gmock.h>

#include <map>
#include <memory>
#include <set>
#include <string>

#include "tests/kvstore/object/support/fake_gcs.h"
#include "tests/kvstore/object/support/fake_s3.h"
#include "tests/kvstore/object/support/http_server.h"
#include "tests/support/matchers.h"

namespace cairn {
namespace {

using cairn::testing::error_of;
using cairn::testing::FailsWith;
using object::testing::FakeGcs;
using object::testing::FakeS3;
using object::testing::HttpServer;
using object::testing::ServerConnection;
using object::testing::ServerRequest;
using tensorstore_spec::folder_prefix;
using tensorstore_spec::parse_spec;
using tensorstore_spec::parse_store_location;
using tensorstore_spec::Scope;
using tensorstore_spec::StoreLocation;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// A machine with the variables, files and network of a test.
struct SpecMachine {
  std::map<std::string, std::string> variables;
  std::map<std::string, std::string> files;
  std::shared_ptr<object::HttpTransport> network;
  StoreOptions options;

  StoreLocation parse(const std::string& spec) {
    object::Surroundings surroundings{
        .environment = [this](const std::string& name) { return find(variables, name); },
        .file = [this](const std::string& path) { return find(files, path); },
        .now_s = [] { return FakeS3::kNow; },
        .transport = network};
    const Json json = spec.starts_with('{') ? parse_spec(spec) : Json(spec);
    return parse_store_location(json, "", Scope(SpecContext(options), surroundings));
  }
  // The folder that the spec names.
  StorePtr open(const std::string& spec) {
    const StoreLocation location = parse(spec);
    return location.below(folder_prefix(location.path));
  }
  static std::optional<std::string> find(const std::map<std::string, std::string>& map,
                                         const std::string& name) {
    const auto at = map.find(name);
    return at == map.end() ? std::nullopt : std::optional(at->second);
  }
};

// Its driver, or the text that stands for it, with members.
std::string s3_spec(const std::string& members = "") {
  return R"({"driver":"s3","bucket":"bucket","endpoint":"http://h:9")" +
         (members.empty() ? "" : "," + members) + "}";
}

class S3Specs : public ::testing::Test {
 protected:
  S3Specs() {
    machine_.network = server_;
    machine_.variables = {{"HOME", "/h"},
                          {"AWS_ACCESS_KEY_ID", "key"},
                          {"AWS_SECRET_ACCESS_KEY", "secret"},
                          {"AWS_EC2_METADATA_DISABLED", "true"}};
    server_->put("a b/k", "v");
    server_->fault = [this](std::size_t, const object::HttpRequest& request) {
      urls_.insert(request.url);
      payers_.insert(std::string(request.headers.find("x-amz-request-payer").value_or("")));
      return std::nullopt;
    };
  }
  std::string read(const std::string& spec) {
    const auto value = machine_.open(spec)->read("k", {});
    return value ? std::string(as_text(*value)) : "none";
  }

  std::shared_ptr<FakeS3> server_ = std::make_shared<FakeS3>();
  SpecMachine machine_;
  std::set<std::string> urls_;
  std::set<std::string> payers_;
};

TEST_F(S3Specs, NameABucketAndAPath) {
  EXPECT_EQ(read(s3_spec(R"("path":"a b")")), "v");
  EXPECT_EQ(read(s3_spec(R"("path":"a b/")")), "v");
  EXPECT_THAT(urls_, ElementsAre("http://h:9/bucket/a%20b/k"));
  machine_.open(s3_spec(R"("path":"n")"))->write("x/y", as_bytes("1"));
  EXPECT_EQ(as_text(*machine_.open(s3_spec())->read("n/x/y", {})), "1");
}

TEST_F(S3Specs, WithoutAnEndpointGoWhereTheOptionsOrTheEnvironmentSay) {
  const std::string spec = R"({"driver":"s3","bucket":"bucket","path":"a b","aws_region":"eu-2"})";
  server_->region = "eu-2";
  machine_.variables["AWS_ENDPOINT_URL"] = "http://e:1";
  EXPECT_EQ(read(spec), "v");
  EXPECT_EQ(read("s3://bucket/a%20b/"), "v");
  machine_.options.endpoint = "http://o:2";
  EXPECT_EQ(read(spec), "v");
  EXPECT_THAT(urls_, ElementsAre("http://e:1/bucket/a%20b/k", "http://o:2/bucket/a%20b/k"));
}

TEST_F(S3Specs, LetTheRequesterPayIfAsked) {
  EXPECT_EQ(read(s3_spec(R"("path":"a b","requester_pays":true)")), "v");
  EXPECT_THAT(payers_, ElementsAre("requester"));
  EXPECT_EQ(read(s3_spec(R"("path":"a b","requester_pays":false)")), "v");
  EXPECT_THAT(payers_, ElementsAre("", "requester"));
}

TEST_F(S3Specs, UseOnlyTheKeysThatTheyName) {
  const auto with = [](const std::string& credentials) {
    return s3_spec(R"("path":"a b","aws_credentials":)" + credentials);
  };
  EXPECT_EQ(read(with(R"({"type":"default"})")), "v");
  EXPECT_EQ(read(with(R"({"type":"environment"})")), "v");
  EXPECT_THAT([&] { read(with(R"({"type":"anonymous"})")); }, FailsWith(Code::kIo, "AccessDenied"));
  EXPECT_THAT([&] { read(with(R"({"type":"profile"})")); },
              FailsWith(Code::kFailedPrecondition, "the profile has no keys"));
  EXPECT_THAT([&] { read(with(R"({"type":"ecs"})")); },
              FailsWith(Code::kFailedPrecondition, "AWS_CONTAINER_CREDENTIALS_FULL_URI"));
  EXPECT_THAT([&] { read(with(R"({"type":"imds"})")); },
              FailsWith(Code::kFailedPrecondition, "AWS_EC2_METADATA_DISABLED"));
  machine_.variables.erase("AWS_ACCESS_KEY_ID");
  machine_.variables.erase("AWS_SECRET_ACCESS_KEY");
  machine_.files["/h/.aws/credentials"] =
      "[default]\naws_access_key_id = key\naws_secret_access_key = secret\n";
  EXPECT_EQ(read(with(R"({"type":"default"})")), "v");
  EXPECT_THAT([&] { read(with(R"({"type":"environment"})")); },
              FailsWith(Code::kFailedPrecondition, "AWS_ACCESS_KEY_ID"));
}

TEST_F(S3Specs, ReadTheProfileThatTheyName) {
  machine_.variables["AWS_ACCESS_KEY_ID"] = "another";
  machine_.files["/keys"] = "[p]\naws_access_key_id = key\naws_secret_access_key = secret\n";
  machine_.files["/config"] = "[profile p]\nregion = us-7\n";
  server_->region = "us-7";
  EXPECT_EQ(read(s3_spec(
                R"("path":"a b","aws_credentials":{"type":"profile","profile":"p",
                "credentials_file":"/keys","config_file":"/config"})")),
            "v");
  EXPECT_EQ(server_->requests(), 1U) << "the region of config_file was used";
}

TEST_F(S3Specs, FindCredentialsInTheContextsAroundThem) {
  machine_.variables.erase("AWS_ACCESS_KEY_ID");
  machine_.variables.erase("AWS_SECRET_ACCESS_KEY");
  const std::string here = R"("aws_credentials":{"type":"anonymous"})";
  const std::string named = R"("aws_credentials#n":{"type":"anonymous"})";
  const std::string env = R"("aws_credentials":{"type":"environment"})";
  const std::string uses = R"("aws_credentials":"aws_credentials#n")";
  server_->access_key = "";
  const auto reads = [&](const std::string& base, const std::string& context) {
    return error_of([&] {
             (void)machine_.open(R"({"driver":"ocdbt","context":{)" + context + R"(},"base":)" +
                                 base + "}");
           })
        .message();
  };
  // Without keys, "environment" is an error.
  EXPECT_THAT(reads(s3_spec(), env), HasSubstr("AWS_ACCESS_KEY_ID"));
  EXPECT_NO_THROW(
      machine_.open(R"({"driver":"ocdbt","context":{)" + here + R"(},"base":)" + s3_spec() + "}"));
  EXPECT_NO_THROW(machine_.open(R"({"driver":"ocdbt","context":{)" + named + R"(},"base":)" +
                                s3_spec(uses) + "}"));
  EXPECT_NO_THROW(machine_.open(R"({"driver":"ocdbt","context":{)" + env + R"(},"base":)" +
                                s3_spec(R"("context":{)" + here + "}") + "}"));
  EXPECT_THAT(reads(s3_spec(R"("context":{"aws_credentials":null})"), env),
              HasSubstr("AWS_ACCESS_KEY_ID"));
  EXPECT_THAT(reads(s3_spec(uses), env),
              HasSubstr("/base/aws_credentials: no \"context\" of the spec defines"));
  EXPECT_THAT(reads(s3_spec(), R"("aws_credentials":"aws_credentials")"),
              HasSubstr("/context/aws_credentials: \"aws_credentials\" names itself"));
}

TEST_F(S3Specs, SendKeysOfTheCallerToTheEndpointOfTheCallerOnly) {
  machine_.options.credentials = StoreCredentials{.access_key = "key", .secret_key = "secret"};
  EXPECT_THAT([&] { read(s3_spec(R"("path":"a b")")); },
              FailsWith(Code::kInvalidArgument, "/endpoint"));
  machine_.options.endpoint = "http://h:9/";
  EXPECT_EQ(read(s3_spec(R"("path":"a b")")), "v");
  machine_.options.endpoint = "http://h:90";
  EXPECT_THAT([&] { read(s3_spec(R"("path":"a b")")); },
              FailsWith(Code::kInvalidArgument, "/endpoint"));
  EXPECT_EQ(server_->requests(), 1U);
}

TEST_F(S3Specs, StayAnonymousIfTheCallerIs) {
  machine_.options.anonymous = true;
  EXPECT_THAT([&] { read(s3_spec(R"("path":"a b","aws_credentials":{"type":"environment"})")); },
              FailsWith(Code::kIo, "AccessDenied"));
}

TEST_F(S3Specs, AreRefusedByTheirPlace) {
  const std::pair<std::string, const char*> cases[] = {
      {R"({"driver":"s3"})", "/bucket: is missing"},
      {R"({"driver":"s3","endpoint":"http://bucket.h"})", "/bucket: is missing: Cairn needs it"},
      {R"({"driver":"s3","bucket":"a/b"})", "/bucket: "},
      {R"({"driver":"s3","bucket":""})", "/bucket: "},
      {s3_spec(R"("foo":1)"), "/foo: unknown member"},
      {s3_spec(R"("host_header":"x")"), "/host_header: "},
      {s3_spec(R"("use_conditional_write":false)"), "/use_conditional_write: "},
      {s3_spec(R"("requester_pays":1)"), "/requester_pays: "},
      {s3_spec(R"("aws_credentials":"SECRET")"), "/aws_credentials: "},
      {s3_spec(R"("aws_credentials":3)"), "/aws_credentials: "},
      {s3_spec(R"("aws_credentials":{})"), "/aws_credentials/type: "},
      {s3_spec(R"("aws_credentials":{"type":"SECRET"})"), "/aws_credentials/type: "},
      {s3_spec(R"("aws_credentials":{"type":"default","profile":"p"})"),
       "/aws_credentials/profile: unknown"},
      {s3_spec(R"("aws_credentials":{"type":"ecs","endpoint":"http://x"})"),
       "/aws_credentials/endpoint: "},
      {s3_spec(R"("aws_credentials":{"type":"ecs","auth_token_file":"/x"})"),
       "/aws_credentials/auth_token_file: "},
      {s3_spec(R"("context":3)"), "/context: "},
      {s3_spec(R"("s3_request_retries":3)"), "/s3_request_retries: "},
      {R"({"driver":"s3","bucket":"b","endpoint":"https://u:SECRET@h"})", "/endpoint: "},
      {R"({"driver":"s3","bucket":"b","endpoint":"http://h/p?SECRET"})", "/endpoint: "},
      {R"({"driver":"s3","bucket":"b","endpoint":"h:9"})", "/endpoint: "},
      {R"({"driver":"s3","bucket":"b","endpoint":""})", "/endpoint: "},
      {"s3://bucket/a?SECRET", "spec: \"?\""},
      {"s3://u:SECRET@bucket/a", "spec"},
      {"s3://bucket/%zz", "spec: \"%\""},
      {"s3+http://u:SECRET@h/bucket", "s3+http:"}};
  for (const auto& [spec, place] : cases) {
    const std::string message =
        error_of([&, &text = spec] { (void)machine_.parse(text); }).message();
    EXPECT_THAT(message, HasSubstr(place)) << spec;
    EXPECT_THAT(message, Not(HasSubstr("SECRET"))) << spec;
  }
  for (const char* const path : {"/", "/a", "a//b", "a//", "..", "a/./b"})
    EXPECT_THAT([&] { (void)machine_.open(s3_spec(R"("path":")" + std::string(path) + "\"")); },
                FailsWith(Code::kInvalidArgument))
        << path;
  EXPECT_EQ(server_->requests(), 0U);
}

TEST_F(S3Specs, ResourcesThatChangeOnlySpeedAreAccepted) {
  EXPECT_EQ(read(s3_spec(R"("path":"a b","s3_request_concurrency":{"limit":3},
      "s3_request_retries":"s3_request_retries","experimental_s3_rate_limiter":{},
      "data_copy_concurrency":{},"use_conditional_write":true,"aws_region":"")")),
            "v");
}

TEST_F(S3Specs, AnArrayIsClearedButNeverABucket) {
  using tensorstore_spec::KeyEditor;
  const StoreLocation all = machine_.parse(s3_spec());
  EXPECT_THAT([&] { KeyEditor(all, "").clear(); }, FailsWith(Code::kInvalidArgument, "everything"));
  server_->put("a b/l/m", "v");
  server_->put("a b2", "v");
  KeyEditor(machine_.parse(s3_spec()), "a b/").clear();
  const auto left = machine_.open(s3_spec())->list("");
  EXPECT_THAT(left, ElementsAre(ListEntry{.key = "a b2", .size = 1}));
}

TEST_F(S3Specs, AManifestOfAnotherServerIsAnotherManifest) {
  // Both are s3://bucket/db/manifest.ocdbt to their stores.
  const std::string base = s3_spec(R"("path":"db/")");
  const std::string other =
      R"({"driver":"s3","bucket":"bucket","path":"db/","endpoint":"http://o:1"})";
  (void)error_of([&] {
    (void)machine_.open(R"({"driver":"ocdbt","version":1,"base":)" + base + R"(,"manifest":)" +
                        other + "}");
  });
  EXPECT_TRUE(urls_.contains("http://o:1/bucket/db/manifest.ocdbt"));
  EXPECT_FALSE(urls_.contains("http://h:9/bucket/db/manifest.ocdbt"));
}

class GcsSpecs : public ::testing::Test {
 protected:
  GcsSpecs() {
    machine_.network = server_;
    machine_.variables = {{"TENSORSTORE_GCS_HTTP_URL", "http://gcs.test"},
                          {"STORAGE_EMULATOR_HOST", "elsewhere.test"}};
  }
  std::shared_ptr<FakeGcs> server_ = std::make_shared<FakeGcs>();
  SpecMachine machine_;
};

TEST_F(GcsSpecs, NameABucketAndAPath) {
  machine_.open(R"({"driver":"gcs","bucket":"bkt","path":"a b"})")->write("k", as_bytes("v"));
  EXPECT_EQ(server_->bytes_of("a b/k"), "v");
  for (const char* const spec :
       {"gs://bkt/a%20b", "gs://bkt/a b/", R"({"driver":"gcs","bucket":"bkt","path":"a b/"})"})
    EXPECT_EQ(as_text(*machine_.open(spec)->read("k", {})), "v") << spec;
  for (const char* const spec : {"gs://bkt", "gs://bkt/", R"({"driver":"gcs","bucket":"bkt"})"})
    EXPECT_EQ(as_text(*machine_.open(spec)->read("a b/k", {})), "v") << spec;
}

TEST_F(GcsSpecs, AnEndpointOfTheOptionsIsFirst) {
  machine_.variables["TENSORSTORE_GCS_HTTP_URL"] = "elsewhere.test";
  machine_.options.endpoint = "http://gcs.test";
  EXPECT_EQ(machine_.open("gs://bkt/a")->read("k", {}), std::nullopt);
}

TEST_F(GcsSpecs, AreRefusedByTheirPlace) {
  const auto with = [](const std::string& members) {
    return R"({"driver":"gcs","bucket":"bkt",)" + members + "}";
  };
  const std::pair<std::string, const char*> cases[] = {
      {R"({"driver":"gcs"})", "/bucket: is missing"},
      {R"({"driver":"gcs","bucket":"a b"})", "/bucket"},
      {with(R"("endpoint":"http://x")"), "/endpoint: unknown"},
      {with(R"("gcs_user_project":{"project_id":"p"})"), "/gcs_user_project/project_id: "},
      {with(R"("context":{"gcs_user_project":{"project_id":"p"}})"),
       "/context/gcs_user_project/project_id: "},
      {with(R"("gcs_request_concurrency":3)"), "/gcs_request_concurrency: "},
      {"gs:///a", "spec"},
      {"gs://bkt/a#b", "spec"}};
  for (const auto& [spec, place] : cases)
    EXPECT_THAT(error_of([&, &text = spec] { (void)machine_.parse(text); }).message(),
                HasSubstr(place))
        << spec;
  EXPECT_NO_THROW((void)machine_.parse(with(
      R"("gcs_user_project":{},"gcs_request_concurrency":{},"gcs_request_retries":{},
      "experimental_gcs_rate_limiter":{},"data_copy_concurrency":{},"context":{})")));
}

// A web server with the array "a b/w" of two bytes, which moves /moved/... to another server.
class HttpSpecs : public ::testing::Test {
 protected:
  void serve(const ServerRequest& request, ServerConnection& connection) const {
    const std::string metadata =
        R"({"zarr_format":2,"shape":[2],"chunks":[2],"dtype":"|u1","compressor":null,)"
        R"("fill_value":null,"order":"C","filters":null})";
    const std::map<std::string, std::string> files = {
        {"/a%20b/w/.zarray", metadata}, {"/a%20b/w/0", "\x05\x06"}, {"/x.json", R"({"n":7})"}};
    if (request.target.starts_with("/moved"))
      return connection.answer("302 Found", "",
                               "Location: " + elsewhere_.url(request.target.substr(6)) + "\r\n");
    const auto file = files.find(request.target);
    if (file == files.end()) return connection.answer("404 Not Found", "");
    const std::string end = std::to_string(file->second.size() - 1);
    connection.answer("206 Partial Content", file->second,
                      "ETag: \"1\"\r\nContent-Range: bytes 0-" + end + "/" +
                          std::to_string(file->second.size()) + "\r\n");
  }
  [[nodiscard]] static SpecArray array(const std::string& kvstore) {
    return open_array_spec(R"({"driver":"zarr","kvstore":)" + kvstore + "}");
  }
  [[nodiscard]] std::string base(const std::string& path, const std::string& members = "") const {
    return R"({"driver":"http","base_url":")" + server_.url(path) + "\"" + members + "}";
  }

  HttpServer elsewhere_{[this](const ServerRequest& request, ServerConnection& connection) {
    serve(request, connection);
  }};
  HttpServer server_{[this](const ServerRequest& request, ServerConnection& connection) {
    serve(request, connection);
  }};
};

TEST_F(HttpSpecs, NameAFolder) {
  for (const std::string& kvstore :
       {base("/a%20b/w"), base("/a%20b/w/"), base("", R"(,"path":"a b/w")"),
        base("/", R"(,"path":"/a b/w/")"), base("/a%20b", R"(,"path":"w")"),
        base("/a%20b/", R"(,"path":"w/")"), "\"" + server_.url("/a%20b/w/") + "\""}) {
    const Array read = array(kvstore).read();
    EXPECT_EQ(read.bytes()[1], std::byte{6}) << kvstore;
  }
  EXPECT_EQ(open_json_spec(R"({"driver":"json","json_pointer":"/n","kvstore":")" +
                           server_.url("/x.json") + "\"}")
                .read(),
            "7");
}

TEST_F(HttpSpecs, SendTheirHeadersToTheirHostOnly) {
  const std::string headers = R"(,"headers":["Authorization: Bearer token", "X-A:b"])";
  EXPECT_EQ(array(base("/moved/a%20b/w", headers)).info().shape, Shape{2});
  ASSERT_FALSE(server_.requests().empty());
  for (const ServerRequest& request : server_.requests()) {
    EXPECT_EQ(request.field("Authorization"), "Bearer token");
    EXPECT_EQ(request.field("X-A"), "b");
  }
  ASSERT_FALSE(elsewhere_.requests().empty());
  for (const ServerRequest& request : elsewhere_.requests()) {
    EXPECT_EQ(request.field("Authorization"), "");
    EXPECT_EQ(request.field("X-A"), "");
  }
}

TEST_F(HttpSpecs, AreForReading) {
  SpecArray opened = array(base("/a%20b/w"));
  const Array values = opened.read();
  EXPECT_THAT([&] { opened.write(Box::whole({2}), values.view()); },
              FailsWith(Code::kUnimplemented, "read-only"));
  EXPECT_THAT(
      [&] {
        (void)open_array_spec(
            R"({"driver":"zarr","dtype":"uint8","metadata":{"shape":[2]},"kvstore":)" +
                base("/new") + "}",
            {.create = true});
      },
      FailsWith(Code::kUnimplemented, server_.url("/new/.zarray")));
}

TEST_F(HttpSpecs, AreRefusedByTheirPlace) {
  const std::pair<std::string, const char*> cases[] = {
      {R"({"driver":"http"})", "/base_url: is missing"},
      {R"({"driver":"http","base_url":3})", "/base_url: "},
      {R"({"driver":"http","base_url":"s3://b/a"})", "/base_url: "},
      {R"({"driver":"http","base_url":"ftp://h/a"})", "/base_url: "},
      {R"({"driver":"http","base_url":"http://u:SECRET@h/a"})", "/base_url: "},
      {R"({"driver":"http","base_url":"http://h/a?k=SECRET"})", "/base_url: "},
      {R"({"driver":"http","base_url":"http://h/a//"})", "/base_url: "},
      {R"({"driver":"http","base_url":"http://h/%zz"})", "/base_url: "},
      {base("/a", R"(,"path":"/b")"), "/path: "},
      {base("/a", R"(,"foo":1)"), "/foo: unknown"},
      {base("/a", R"(,"headers":"A: SECRET")"), "/headers: "},
      {base("/a", R"(,"headers":["A: b","SECRET"])"), "/headers/1: "},
      {base("/a", R"(,"headers":[3])"), "/headers/0: "},
      {base("/a", R"(,"headers":["A:"])"), "/headers/0: "},
      {base("/a", R"(,"headers":[": SECRET"])"), "/headers/0: "},
      {base("/a", R"(,"headers":["A B: SECRET"])"), "/headers/0: "},
      {base("/a", R"(,"headers":["A: SECRET\r\nB: c"])"), "/headers/0: "},
      {base("/a", R"(,"headers":["rAnge: bytes=0-SECRET"])"), "/headers/0: Cairn sets"},
      {base("/a", R"(,"headers":["host: SECRET"])"), "/headers/0: Cairn sets"},
      {base("/a", R"(,"http_request_retries":3)"), "/http_request_retries: "}};
  SpecMachine machine;
  for (const auto& [spec, place] : cases) {
    const std::string message =
        error_of([&, &text = spec] { (void)machine.parse(text); }).message();
    EXPECT_THAT(message, HasSubstr(place)) << spec;
    EXPECT_THAT(message, Not(HasSubstr("SECRET"))) << spec;
  }
  EXPECT_THAT([&] { (void)open_kv_store(base("/a/../b")); }, FailsWith(Code::kInvalidArgument));
}

}  // namespace
}  // namespace cairn

// signature_tool.cc -- signs requests for S3 as a list of jobs on stdin says; for tests that
// compare the signatures with botocore's.
//
// In:  [{"method": "GET", "origin": "http://host:1", "path": "/bucket/key", "query": [[name,
//       value]], "headers": [[name, value]], "body": text, "unsigned": false, "access_key": "",
//       "secret_key": "", "session_token": "", "region": "", "service": "s3", "seconds": 0}]
// Out: [{"url": "", "canonical_request": "", "string_to_sign": "", "authorization": ""}]
#include <cairn/base/json/json.h>
#include <cairn/kvstore/object/request/percent.h>
#include <cairn/kvstore/object/request/sigv4.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "tests/interop/tools/answer_jobs.h"

namespace {

using namespace cairn;

std::string text(const Json& job, const char* member) {
  return std::string(*job.find(member)->as_string());
}

std::vector<std::pair<std::string, std::string>> pairs(const Json& job, const char* member) {
  std::vector<std::pair<std::string, std::string>> found;
  for (const Json& pair : *job.find(member)->as_array()) {
    const JsonArray& both = *pair.as_array();
    found.emplace_back(*both.at(0).as_string(), *both.at(1).as_string());
  }
  return found;
}

std::string url_of(const Json& job) {
  using object::percent_encoded;
  std::string url = text(job, "origin") + percent_encoded(text(job, "path"), object::Slash::kKept);
  char separator = '?';
  for (const auto& [name, value] : pairs(job, "query")) {
    url += separator + percent_encoded(name, object::Slash::kEncoded) + "=" +
           percent_encoded(value, object::Slash::kEncoded);
    separator = '&';
  }
  return url;
}

object::SigningKey key_of(const Json& job) {
  object::SigningKey key;
  key.access_key = text(job, "access_key");
  key.secret_key = text(job, "secret_key");
  key.session_token = text(job, "session_token");
  key.region = text(job, "region");
  key.service = text(job, "service");
  return key;
}

Json answer(const Json& job) {
  object::HttpRequest request;
  request.method = text(job, "method");
  request.url = url_of(job);
  for (auto& [name, value] : pairs(job, "headers")) request.headers.add(name, value);
  const std::string content = text(job, "body");
  const std::array<ByteView, 1> body{as_bytes(content)};
  request.body = body;
  const std::string hash = *job.find("unsigned")->as_bool() ? std::string(object::kUnsignedPayload)
                                                            : object::payload_hash_of(request);
  const auto seconds = job.find("seconds")->as_int64().value();
  const object::SignedParts parts = object::sign_v4(request, hash, key_of(job), seconds);
  return JsonObject{{"url", request.url},
                    {"canonical_request", parts.canonical_request},
                    {"string_to_sign", parts.string_to_sign},
                    {"authorization", parts.authorization}};
}

}  // namespace

int main() { cairn::testing::answer_list(answer); }

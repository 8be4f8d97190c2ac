// fake_s3.h -- S3 in memory, as a transport. It fails the test for each request that it does not
// know, and checks signatures.
#pragma once

#include <cairn/base/base64.h>
#include <cairn/kvstore/object/request/content_range.h>
#include <cairn/kvstore/object/request/percent.h>
#include <cairn/kvstore/object/request/retry.h>
#include <cairn/kvstore/object/request/sigv4.h>
#include <cairn/kvstore/object/request/url.h>
#include <cairn/kvstore/object/request/xml.h>
#include <cairn/kvstore/object/s3/upload_check.h>
#include <cairn/kvstore/object/transport/crypto.h>
#include <cairn/kvstore/object/transport/http.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cairn::object::testing {

// Instead of an answer. With `happens`, the store has acted on the request before.
struct S3Fault {
  Outcome outcome;
  bool happens = false;
};

class FakeS3 : public HttpTransport {
 public:
  // The dialect: strict as Ceph's radosgw 16, or lax as SeaweedFS.
  enum class Kind : std::uint8_t { kStrict, kLax };

  explicit FakeS3(Kind kind = Kind::kStrict) : is_strict_(kind == Kind::kStrict) {}

  // What to do instead with request n (1, 2, ...). It may also change the answer.
  std::function<std::optional<S3Fault>(std::size_t n, const HttpRequest& request)> fault;
  std::function<void(std::size_t n, const HttpRequest& request, HttpResponse& response)> damage;
  std::size_t page_size = 1000;
  std::size_t least_part = std::size_t{5} << 20U;         // bytes, of an upload
  std::string access_key = "key", secret_key = "secret";  // "": anonymous requests are allowed
  std::string region;  // if given: others are refused, and this one is named
  bool knows_crc32c = true;
  bool knows_batches = true;
  bool knows_conditions = true;  // of PUT
  bool forgets_uploads = false;  // an upload that is complete is unknown at once

  [[nodiscard]] std::size_t requests() const { return requests_; }
  // "PUT bucket/key" for each request that arrived.
  [[nodiscard]] std::vector<std::string> log() const {
    const std::scoped_lock lock(mutex_);
    return log_;
  }
  [[nodiscard]] std::size_t open_uploads() const {
    const std::scoped_lock lock(mutex_);
    return uploads_.size();
  }
  // Stores an object beside all checks.
  void put(const std::string& key, std::string_view value) {
    const std::scoped_lock lock(mutex_);
    store(key, Bytes(as_bytes(value).begin(), as_bytes(value).end()), {});
  }

  std::variant<HttpResponse, TransportError> send(const HttpRequest& request,
                                                  const HttpLimits& /*limits*/) override {
    const std::scoped_lock lock(mutex_);
    const std::size_t n = ++requests_;
    std::optional<S3Fault> instead;
    if (fault) instead = fault(n, request);
    if (instead && !instead->happens) return instead->outcome;
    Call call = parse(request);
    log_.push_back(request.method + " " + call.bucket + "/" + call.key);
    HttpResponse response = answer_to(call);
    if (instead) return instead->outcome;
    if (damage) damage(n, request, response);
    return delivered(request, std::move(response));
  }

 private:
  struct Object {
    Bytes bytes;
    std::string etag, save_id;
    std::int64_t version = 0;
  };
  struct Upload {
    std::string key;
    std::map<std::size_t, Bytes> parts;
  };
  struct Call {
    const HttpRequest* request;
    std::string bucket, key;
    std::map<std::string, std::string> query;
    Bytes body;
    [[nodiscard]] bool has(const std::string& name) const { return query.contains(name); }
    [[nodiscard]] std::string header(std::string_view name) const {
      return std::string(request->headers.find(name).value_or(""));
    }
  };

  // SeaweedFS lists folders before files with the same beginning.
  struct Order {
    bool is_strict;
    [[nodiscard]] static std::string weight(std::string key) {
      std::replace(key.begin(), key.end(), '/', '\0');
      return key;
    }
    bool operator()(const std::string& a, const std::string& b) const {
      return is_strict ? a < b : weight(a) < weight(b);
    }
  };

  static HttpResponse respond(int status, std::string_view body = {}) {
    HttpResponse response{.status = status};
    response.body.assign(as_bytes(body).begin(), as_bytes(body).end());
    response.headers.add("Content-Length", std::to_string(body.size()));
    return response;
  }
  static HttpResponse error(int status, std::string_view code, std::string_view more = {}) {
    return respond(status, "<?xml version=\"1.0\"?><Error><Code>" + std::string(code) +
                               "</Code><RequestId>R</RequestId>" + std::string(more) + "</Error>");
  }

  // What the transport makes of an answer.
  static std::variant<HttpResponse, TransportError> delivered(const HttpRequest& request,
                                                              HttpResponse response) {
    if (request.method == "HEAD") response.body.clear();
    response.received = response.body.size();
    const bool is_good = response.status / 100 == 2;
    const auto fail = [](const char* why) {
      return TransportError{.delivery = Delivery::kAnswered, .is_final = true, .why = why};
    };
    if (is_good && request.into.empty() && response.body.size() > request.most_body)
      return fail("the answer is too long");
    if (!is_good || request.into.empty()) return response;
    std::size_t room = 0, at = 0;
    for (const MutableByteView part : request.into) room += part.size();
    if (room != response.body.size()) return fail("the answer has an unexpected length");
    for (const MutableByteView part : request.into) {
      if (part.data() != nullptr)
        std::copy_n(response.body.begin() + static_cast<std::ptrdiff_t>(at), part.size(),
                    part.begin());
      at += part.size();
    }
    response.body.clear();
    return response;
  }

  static Call parse(const HttpRequest& request) {
    Call call{.request = &request};
    const std::string_view url = request.url;
    const std::string_view target = url.substr(origin_of(url).size());
    const std::size_t question = std::min(target.find('?'), target.size());
    std::string_view path = target.substr(0, question);
    EXPECT_TRUE(path.starts_with('/')) << url;
    path.remove_prefix(1);
    const std::size_t slash = std::min(path.find('/'), path.size());
    call.bucket = path.substr(0, slash);
    call.key = percent_decoded_text(path.substr(std::min(slash + 1, path.size()))).value();
    std::string_view query = target.substr(std::min(question + 1, target.size()));
    while (!query.empty()) {
      const std::size_t end = std::min(query.find('&'), query.size());
      const std::string_view pair = query.substr(0, end);
      const std::size_t equals = std::min(pair.find('='), pair.size());
      const std::string value(pair.substr(std::min(equals + 1, pair.size())));
      call.query[std::string(pair.substr(0, equals))] = percent_decoded_text(value).value();
      query.remove_prefix(std::min(end + 1, query.size()));
    }
    for (const ByteView part : request.body)
      call.body.insert(call.body.end(), part.begin(), part.end());
    return call;
  }

  std::optional<HttpResponse> refusal_of(const Call& call) const {
    const std::string given = call.header("authorization");
    if (given.empty() && access_key.empty()) return std::nullopt;
    if (given.empty()) return error(403, "AccessDenied");
    if (given.find("Credential=" + access_key + "/") == std::string::npos)
      return error(403, "InvalidAccessKeyId");
    const std::size_t scope = given.find('/');
    const std::string used = given.substr(scope + 10, given.find('/', scope + 10) - (scope + 10));
    if (!region.empty() && used != region)
      return error(400, "AuthorizationHeaderMalformed", "<Region>" + region + "</Region>");
    HttpRequest again{.method = call.request->method, .url = call.request->url};
    again.body = call.request->body;
    std::string hash;
    for (const auto& [name, value] : call.request->headers.fields()) {
      if (name == "x-amz-content-sha256") hash = value;
      if (name != "authorization" && !name.starts_with("x-amz-date") &&
          name != "x-amz-content-sha256" && name != "x-amz-security-token")
        again.headers.add(name, value);
    }
    SigningKey key{.access_key = access_key, .secret_key = secret_key, .region = used};
    key.session_token = call.header("x-amz-security-token");
    const auto expected = sign_v4(again, hash, key, kNow).authorization;
    if (expected != given) return error(403, "SignatureDoesNotMatch");
    if (is_strict_ && hash != kUnsignedPayload && hash != payload_hash_of(again))
      return error(400, "XAmzContentSHA256Mismatch");
    return std::nullopt;
  }

  HttpResponse answer_to(const Call& call) {
    if (auto refusal = refusal_of(call)) return std::move(*refusal);
    if (call.bucket != kBucket) return error(404, "NoSuchBucket");
    const std::string& method = call.request->method;
    if (call.key.empty()) {
      if (method == "HEAD") return respond(200);
      if (method == "POST" && call.has("delete")) return remove_many(call);
      if (method == "GET" && call.has("uploads")) return list_uploads();
      if (method == "GET" && call.query.at("list-type") == "2") return list(call);
    } else if (call.has("uploads") || call.has("uploadId")) {
      return upload(call);
    } else if (method == "GET" || method == "HEAD") {
      return get(call);
    } else if (method == "PUT") {
      return call.header("x-amz-copy-source").empty() ? put(call) : copy(call);
    } else if (method == "DELETE") {
      objects_.erase(call.key);
      return respond(204);
    }
    ADD_FAILURE() << "a request that the fake does not know: " << method << " "
                  << call.request->url;
    return error(501, "NotImplemented");
  }

  HttpResponse get(const Call& call) const {
    const auto found = objects_.find(call.key);
    if (found == objects_.end()) return error(404, "NoSuchKey");
    const Object& object = found->second;
    const std::string match = call.header("if-match");
    if (!match.empty() && match != object.etag) return error(412, "PreconditionFailed");
    HttpResponse response = part_of(call, object);
    if (response.status == 416) return response;
    response.headers.add("ETag", object.etag);
    response.headers.add("Last-Modified", "Sat, 28 Nov 2026 14:00:00 GMT");
    if (!object.save_id.empty()) response.headers.add("X-Amz-Meta-Cairn-Save", object.save_id);
    return response;
  }
  HttpResponse part_of(const Call& call, const Object& object) const {
    const std::string_view bytes = as_text(object.bytes);
    const std::string range = call.header("range");
    if (range.empty()) {
      HttpResponse whole = respond(200, bytes);
      if (!is_strict_ && !call.header("x-amz-checksum-mode").empty()) {
        const ByteView all = object.bytes;
        whole.headers.add("x-amz-checksum-crc32c", crc32c_text({&all, 1}));
      }
      return whole;
    }
    const std::size_t dash = range.find('-');
    const std::uint64_t first = parse_size(range.substr(6, dash - 6)).value();
    const std::uint64_t last = parse_size(range.substr(dash + 1)).value_or(bytes.size() - 1);
    if (first >= bytes.size()) {
      HttpResponse refused = error(416, "InvalidRange");
      if (!is_strict_)
        refused.headers.add("Content-Range", "bytes */" + std::to_string(bytes.size()));
      return refused;
    }
    const std::uint64_t end = std::min<std::uint64_t>(last, bytes.size() - 1) + 1;
    HttpResponse part = respond(206, bytes.substr(first, end - first));
    part.headers.add("Content-Range", "bytes " + std::to_string(first) + "-" +
                                          std::to_string(end - 1) + "/" +
                                          std::to_string(bytes.size()));
    return part;
  }

  const std::string& store(const std::string& key, Bytes bytes, const std::string& save_id,
                           const std::string& etag_end = {}) {
    Object object{.bytes = std::move(bytes), .etag = {}, .save_id = save_id};
    const ByteView all = object.bytes;
    object.etag = "\"" + hex_digits(md5({&all, 1})) + etag_end + "\"";
    return objects_.insert_or_assign(key, std::move(object)).first->second.etag;
  }

  std::optional<HttpResponse> failed_check(const Call& call) const {
    const ByteView body = call.body;
    const std::string crc = call.header("x-amz-checksum-crc32c"), md5 = call.header("content-md5");
    if (!crc.empty() && !knows_crc32c) return error(400, "InvalidRequest");
    if (!crc.empty() && !is_strict_ && crc != crc32c_text({&body, 1}))
      return error(400, "BadDigest");
    if (!md5.empty() && md5 != md5_text({&body, 1})) return error(400, "BadDigest");
    return std::nullopt;
  }
  HttpResponse put(const Call& call) {
    if (auto refusal = failed_check(call)) return std::move(*refusal);
    const auto found = objects_.find(call.key);
    const bool exists = found != objects_.end();
    if (call.header("if-none-match") == "*" && exists && knows_conditions)
      return error(412, "PreconditionFailed");
    std::string match = call.header("if-match");
    if (!match.empty() && !exists) return error(404, "NoSuchKey");
    if (!match.empty()) {
      if (is_strict_ && match.front() == '"') return error(412, "PreconditionFailed");
      if (match.front() != '"') match = "\"" + match + "\"";
      if (match != found->second.etag) return error(412, "PreconditionFailed");
    }
    HttpResponse response = respond(200);
    response.headers.add("ETag", store(call.key, call.body, call.header("x-amz-meta-cairn-save")));
    return response;
  }
  HttpResponse copy(const Call& call) {
    const std::string source = percent_decoded_text(call.header("x-amz-copy-source")).value();
    const auto found = objects_.find(source.substr(std::string("/bucket/").size()));
    if (found == objects_.end()) return error(404, "NoSuchKey");
    const Object copied = found->second;
    objects_.insert_or_assign(call.key, copied);
    return respond(200, "<CopyObjectResult><ETag>" + copied.etag + "</ETag></CopyObjectResult>");
  }

  HttpResponse remove_many(const Call& call) {
    if (!knows_batches) return error(501, "NotImplemented");
    if (call.header("content-md5").empty() && call.header("x-amz-checksum-crc32c").empty())
      return error(400, "InvalidRequest");
    if (auto refusal = failed_check(call)) return std::move(*refusal);
    const XmlElement document = parse_xml(as_text(call.body));
    std::size_t count = 0;
    std::string failures;
    for (const XmlElement& each : document.children) {
      if (each.name != "Object") continue;
      ++count;
      const std::string key(each.text_of("Key"));
      if (failing_removals.contains(key))
        failures += "<Error><Key>" + key + "</Key><Code>InternalError</Code></Error>";
      else
        objects_.erase(key);
    }
    if (count > 1000) return error(400, "MalformedXML");
    return respond(200, "<DeleteResult>" + failures + "</DeleteResult>");
  }

  HttpResponse list(const Call& call) const {
    const std::string prefix = value_of(call, "prefix"),
                      after = value_of(call, "continuation-token");
    const std::string delimiter = value_of(call, "delimiter");
    const Order before{is_strict_};
    std::vector<std::string> names;  // keys, and folders with a '/' at their end
    for (const auto& [key, object] : objects_) {
      if (!key.starts_with(prefix)) continue;
      const std::size_t slash =
          delimiter.empty() ? std::string::npos : key.find('/', prefix.size());
      names.push_back(slash == std::string::npos ? key : key.substr(0, slash + 1));
    }
    std::sort(names.begin(), names.end(), before);
    names.erase(std::unique(names.begin(), names.end()), names.end());
    if (!after.empty())
      names.erase(names.begin(), std::upper_bound(names.begin(), names.end(), after, before));
    const bool is_truncated = names.size() > page_size;
    if (is_truncated) names.resize(page_size);
    std::string xml =
        "<?xml version=\"1.0\"?><ListBucketResult xmlns=\"x\"><EncodingType>url</EncodingType>";
    for (const std::string& name : names)
      xml += objects_.contains(name) && (delimiter.empty() || !name.ends_with('/'))
                 ? contents_of(name)
                 : "<CommonPrefixes><Prefix>" + encoded(name) + "</Prefix></CommonPrefixes>";
    if (is_truncated)
      xml += "<NextContinuationToken>" + escaped(names.back()) + "</NextContinuationToken>";
    return respond(200, xml + "<IsTruncated>" + (is_truncated ? "true" : "false") +
                            "</IsTruncated></ListBucketResult>");
  }
  static std::string value_of(const Call& call, const std::string& name) {
    return call.has(name) ? call.query.at(name) : "";
  }
  [[nodiscard]] std::string contents_of(const std::string& key) const {
    const Object& object = objects_.at(key);
    const char* quote = is_strict_ ? "&quot;" : "&#34;";
    return "<Contents><Key>" + encoded(key) +
           "</Key><LastModified>2026-11-28T14:00:00.000Z</LastModified><ETag>" + quote +
           object.etag.substr(1, object.etag.size() - 2) + quote + "</ETag><Size>" +
           std::to_string(object.bytes.size()) + "</Size></Contents>";
  }
  [[nodiscard]] std::string encoded(const std::string& key) const {
    std::string text = percent_encoded(key, is_strict_ ? Slash::kEncoded : Slash::kKept);
    for (std::size_t at = text.find("%20"); !is_strict_ && at != std::string::npos;
         at = text.find("%20"))
      text.replace(at, 3, "+");
    return text;
  }
  // A token may hold any byte: the real ones are base64.
  static std::string escaped(const std::string& text) {
    std::string out;
    for (const char c : text) out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : std::string(1, c);
    return out;
  }

  HttpResponse upload(const Call& call) {
    const std::string& method = call.request->method;
    if (method == "POST" && call.has("uploads")) {
      const std::string id = "u" + std::to_string(++uploads_begun_);
      uploads_[id] = {.key = call.key};
      return respond(200, "<InitiateMultipartUploadResult><UploadId>" + id +
                              "</UploadId></InitiateMultipartUploadResult>");
    }
    const auto found = uploads_.find(call.query.at("uploadId"));
    if (found == uploads_.end() && completed_.contains(call.query.at("uploadId")))
      return respond(200, "<CompleteMultipartUploadResult/>");
    if (found == uploads_.end())
      return is_strict_ && method == "POST" ? error(500, "InternalError")
                                            : error(404, "NoSuchUpload");
    EXPECT_EQ(found->second.key, call.key);
    if (method == "PUT") return put_part(call, found->second);
    if (method == "POST") return complete(call, found->second);
    EXPECT_EQ(method, "DELETE");
    uploads_.erase(found);
    return respond(204);
  }
  HttpResponse put_part(const Call& call, Upload& upload) const {
    if (auto refusal = failed_check(call)) return std::move(*refusal);
    const ByteView body = call.body;
    upload.parts[std::stoul(call.query.at("partNumber"))] = call.body;
    HttpResponse response = respond(200);
    response.headers.add("ETag", "\"" + hex_digits(md5({&body, 1})) + "\"");
    if (!is_strict_ && !call.header("x-amz-checksum-crc32c").empty())
      response.headers.add("x-amz-checksum-crc32c", call.header("x-amz-checksum-crc32c"));
    return response;
  }
  HttpResponse complete(const Call& call, const Upload& upload) {
    const XmlElement document = parse_xml(as_text(call.body));
    Bytes all;
    std::size_t number = 0;
    for (const XmlElement& part : document.children) {
      ++number;
      const auto found = upload.parts.find(number);
      EXPECT_EQ(part.text_of("PartNumber"), std::to_string(number));
      if (found == upload.parts.end()) return error(400, "InvalidPart");
      const ByteView body = found->second;
      if (part.text_of("ETag") != "\"" + hex_digits(md5({&body, 1})) + "\"")
        return error(400, "InvalidPart");
      if (number < document.children.size() && body.size() < least_part)
        return error(400, "EntityTooSmall");
      all.insert(all.end(), body.begin(), body.end());
    }
    if (number == 0) return error(400, "MalformedXML");
    const std::string etag = store(call.key, std::move(all), {}, "-" + std::to_string(number));
    uploads_.erase(call.query.at("uploadId"));
    if (!forgets_uploads) completed_[call.query.at("uploadId")] = true;
    return respond(200, "<CompleteMultipartUploadResult><ETag>" + etag +
                            "</ETag></CompleteMultipartUploadResult>");
  }
  HttpResponse list_uploads() const {
    std::string xml =
        "<ListMultipartUploadsResult><EncodingType>url</EncodingType><IsTruncated>false"
        "</IsTruncated>";
    for (const auto& [id, upload] : uploads_)
      xml += "<Upload><Key>" + encoded(upload.key) + "</Key><UploadId>" + id +
             "</UploadId><Initiated>2026-11-28T14:00:00Z</Initiated></Upload>";
    return respond(200, xml + "</ListMultipartUploadsResult>");
  }

 public:
  static constexpr std::int64_t kNow = 1'795'874'400;  // 2026-11-28 14:00:00 UTC
  static constexpr const char* kBucket = "bucket";
  std::map<std::string, int> failing_removals;  // keys that DeleteObjects cannot remove

 private:
  bool is_strict_;
  mutable std::recursive_mutex mutex_;  // `fault` may send requests of its own
  std::size_t requests_ = 0;
  std::size_t uploads_begun_ = 0;
  std::vector<std::string> log_;
  std::map<std::string, Object> objects_;
  std::map<std::string, Upload> uploads_;
  std::map<std::string, bool> completed_;
};

}  // namespace cairn::object::testing

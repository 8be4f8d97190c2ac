// fake_gcs.h -- Google Cloud Storage's JSON API in memory, as an HttpTransport: one bucket that
// enforces preconditions, numbers its requests, and fails those that a test chooses. A request that
// it does not know fails the test.
#pragma once

#include <cairn/base/checksum.h>
#include <cairn/base/json/json.h>
#include <cairn/base/text.h>
#include <cairn/kvstore/object/gcs/gcs_client.h>
#include <cairn/kvstore/object/request/content_range.h>
#include <cairn/kvstore/object/request/percent.h>
#include <cairn/kvstore/object/transport/http.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tests/kvstore/object/support/scripted_transport.h"
#include "tests/kvstore/object/support/thread_clock.h"

namespace cairn::object::testing {

// What happens to one request.
enum class GcsFault : std::uint8_t {
  kNone,
  kRefused,  // 503, nothing has happened
  kDropped,  // the connection breaks before the service has seen the request
  kLost,     // it breaks after the service has done it
  kCut,      // it breaks in the middle of the answer's body
};

class FakeGcs : public HttpTransport {
 public:
  static constexpr std::uint64_t kPiece = 256 << 10U;  // pieces of uploads are multiples

  // Decides over each request by its number, counted from 0. Tests set it before they send.
  std::function<GcsFault(std::size_t)> fault = [](std::size_t) { return GcsFault::kNone; };
  // Called before a request, without a lock: what another program does in between.
  std::function<void(std::size_t, FakeGcs&)> before = [](std::size_t, FakeGcs&) {};
  std::function<void(HttpResponse&)> change_answer = [](HttpResponse&) {};
  std::string bucket = "bkt";
  std::string token;  // "": none is needed
  std::size_t page_size = 1000;
  int calls_of_copy = 1;          // how many a copy takes
  bool forgets_finished = false;  // as an emulator: a finished session is gone
  bool status_finishes = false;   // as an emulator: a question about the state ends the upload
  std::uint64_t stores_at_most = ~std::uint64_t{0};  // bytes of a piece

  [[nodiscard]] std::size_t requests() const {
    const std::scoped_lock lock(mutex_);
    return log.size();
  }
  [[nodiscard]] std::size_t count(std::string_view what) const {
    return static_cast<std::size_t>(std::ranges::count_if(
        log, [&](const std::string& line) { return line.starts_with(what); }));
  }
  // Stores an object as another program would.
  std::uint64_t store(const std::string& name, std::string_view bytes, std::string save = {}) {
    const std::scoped_lock lock(mutex_);
    return store_locked(name, Bytes(as_bytes(bytes).begin(), as_bytes(bytes).end()),
                        std::move(save));
  }
  void erase(const std::string& name) {
    const std::scoped_lock lock(mutex_);
    objects_.erase(name);
  }
  [[nodiscard]] std::optional<std::string> bytes_of(const std::string& name) const {
    const std::scoped_lock lock(mutex_);
    const auto it = objects_.find(name);
    if (it == objects_.end()) return std::nullopt;
    return std::string(as_text(it->second.bytes));
  }
  [[nodiscard]] std::size_t open_sessions() const {
    const std::scoped_lock lock(mutex_);
    return sessions_.size();
  }

  void end_sessions() {
    const std::scoped_lock lock(mutex_);
    sessions_.clear();
  }

  std::vector<std::string> ranges;  // that were asked for
  std::vector<std::string> log;     // "GET media a/b", in order

  std::variant<HttpResponse, TransportError> send(const HttpRequest& request,
                                                  const HttpLimits& /*limits*/) override {
    before(requests(), *this);
    const std::scoped_lock lock(mutex_);
    const GcsFault fails = fault(log.size());
    if (fails == GcsFault::kRefused || fails == GcsFault::kDropped) log.emplace_back("failed");
    if (fails == GcsFault::kRefused) return answer(503);
    if (fails == GcsFault::kDropped)
      return TransportError{.delivery = Delivery::kMaybeSent, .why = "the connection broke"};
    HttpResponse response = answer_to(request);
    change_answer(response);
    if (fails == GcsFault::kLost)
      return TransportError{.delivery = Delivery::kMaybeSent, .why = "the answer was lost"};
    const bool is_cut = fails == GcsFault::kCut && !response.body.empty();
    return deliver(request, std::move(response), is_cut);
  }

 private:
  struct Object {
    Bytes bytes;
    std::uint64_t generation = 0;
    std::string save;
  };
  struct UploadSession {
    std::string name, save;
    std::optional<std::uint64_t> if_generation;
    Bytes bytes;
    bool is_finished = false;
  };
  using Parameters = std::map<std::string, std::string>;

  std::uint64_t store_locked(const std::string& name, Bytes bytes, std::string save) {
    objects_[name] = {std::move(bytes), ++generation_, std::move(save)};
    return generation_;
  }

  // As the real transport: a body of another length than `into` ends the exchange.
  static std::variant<HttpResponse, TransportError> deliver(const HttpRequest& request,
                                                            HttpResponse response, bool is_cut) {
    std::size_t room = 0;
    for (const MutableByteView part : request.into) room += part.size();
    const bool is_good = response.status / 100 == 2;
    const bool goes_into = is_good && !request.into.empty();
    response.received = response.body.size();
    if (goes_into ? response.received != room : is_good && response.received > request.most_body)
      return TransportError{.delivery = Delivery::kAnswered,
                            .is_final = true,
                            .why = "the answer has another length than expected"};
    ByteView bytes = response.body;
    if (is_cut) bytes = bytes.first(bytes.size() / 2);
    if (goes_into) place(bytes, request.into);
    if (goes_into && request.filled != nullptr) *request.filled = bytes.size();
    if (is_cut)
      return TransportError{.delivery = Delivery::kAnswered, .why = "the answer was cut off"};
    if (goes_into) response.body.clear();
    return response;
  }
  static void place(ByteView bytes, std::span<const MutableByteView> parts) {
    for (const MutableByteView part : parts) {
      const ByteView here = bytes.first(std::min(part.size(), bytes.size()));
      if (part.data() != nullptr) std::ranges::copy(here, part.begin());
      bytes = bytes.subspan(here.size());
    }
  }

  HttpResponse answer_to(const HttpRequest& request) {
    const auto authorization = request.headers.find("authorization");
    if (!token.empty() && authorization != "Bearer " + token) return answer(401);
    constexpr std::string_view kOrigin = "http://gcs.test";
    EXPECT_TRUE(request.url.starts_with(kOrigin)) << request.url;
    const std::string_view target = std::string_view(request.url).substr(kOrigin.size());
    const std::string_view path = target.substr(0, target.find('?'));
    const Parameters parameters =
        path.size() < target.size() ? parse_query(target.substr(path.size() + 1)) : Parameters();
    const std::string objects = "/storage/v1/b/" + bucket + "/o";
    if (path == "/upload" + objects) return upload(request, parameters);
    if (path == objects) return list(request, parameters);
    if (path.starts_with(objects + "/"))
      return on_object(request, path.substr(objects.size() + 1), parameters);
    if (path.find("/storage/v1/b/") == std::string_view::npos) return unknown(request);
    log.emplace_back("no bucket");
    return error(404, "notFound");
  }

  static Parameters parse_query(std::string_view query) {
    Parameters parameters;
    for (const std::string_view part : split(query, '&')) {
      const std::size_t equals = std::min(part.find('='), part.size() - 1);
      parameters[std::string(part.substr(0, equals))] =
          percent_decoded_text(part.substr(equals + 1)).value();
    }
    return parameters;
  }
  static HttpResponse error(int status, const std::string& reason) {
    return answer(status, R"({"error": {"code": )" + std::to_string(status) +
                              R"(, "message": "m", "errors": [{"reason": ")" + reason + "\"}]}}");
  }
  HttpResponse unknown(const HttpRequest& request) {
    ADD_FAILURE() << "the fake does not know " << request.method << " " << request.url;
    log.emplace_back("unknown");
    return answer(400);
  }

  // Whether an object's generation is the one that a request asks for.
  [[nodiscard]] bool is_as_expected(const std::string& name, const Parameters& parameters) const {
    const auto wanted = parameters.find("ifGenerationMatch");
    if (wanted == parameters.end()) return true;
    const auto it = objects_.find(name);
    const std::uint64_t stored = it == objects_.end() ? 0 : it->second.generation;
    return wanted->second == std::to_string(stored);
  }

  [[nodiscard]] Json json_of(const std::string& name) const {
    const Object& object = objects_.at(name);
    Json json;
    json.set("kind", "storage#object");
    json.set("name", name);
    json.set("size", std::to_string(object.bytes.size()));
    json.set("generation", std::to_string(object.generation));
    json.set("crc32c", crc32c_text(crc32c(object.bytes)));
    json.set("timeCreated", "2026-11-28T14:01:48.5Z");
    if (!object.save.empty())
      json.set("metadata", JsonObject{{std::string(kSaveMetadata), Json(object.save)}});
    return json;
  }

  HttpResponse list(const HttpRequest& request, const Parameters& parameters) {
    if (request.method != "GET") return unknown(request);
    const auto of = [&](const char* name) {
      const auto it = parameters.find(name);
      return it == parameters.end() ? std::string() : it->second;
    };
    const std::string prefix = of("prefix"), delimiter = of("delimiter"), after = of("pageToken");
    log.push_back("GET list " + prefix);
    const std::size_t most = std::min<std::size_t>(page_size, std::stoul(of("maxResults")));
    JsonArray items, prefixes;
    std::string last;
    for (auto it = objects_.lower_bound(prefix);
         it != objects_.end() && it->first.starts_with(prefix); ++it) {
      const std::size_t slash =
          delimiter.empty() ? std::string::npos : it->first.find(delimiter, prefix.size());
      const bool is_folder = slash != std::string::npos;
      const std::string name = is_folder ? it->first.substr(0, slash + 1) : it->first;
      if ((!after.empty() && name <= after) || name == last) continue;
      if (items.size() + prefixes.size() == most) return page(items, prefixes, last);
      (is_folder ? prefixes : items).push_back(is_folder ? Json(name) : json_of(name));
      last = name;
    }
    return page(items, prefixes, "");
  }
  static HttpResponse page(JsonArray items, JsonArray prefixes, const std::string& next) {
    Json json = JsonObject{{"kind", Json("storage#objects")}};
    if (!items.empty()) json.set("items", std::move(items));
    if (!prefixes.empty()) json.set("prefixes", std::move(prefixes));
    if (!next.empty()) json.set("nextPageToken", next);
    return answer(200, to_text(json));
  }

  HttpResponse on_object(const HttpRequest& request, std::string_view encoded,
                         const Parameters& parameters) {
    const std::size_t rewrite = encoded.find("/rewriteTo/b/" + bucket + "/o/");
    const std::string name = percent_decoded_text(encoded.substr(0, rewrite)).value();
    if (rewrite != std::string_view::npos)
      return copy(name, percent_decoded_text(encoded.substr(encoded.rfind('/') + 1)).value(),
                  parameters);
    const bool is_media = parameters.contains("alt");
    log.push_back(request.method + (is_media ? " media " : " object ") + name);
    if (!objects_.contains(name)) return error(404, "notFound");
    if (!is_as_expected(name, parameters)) return error(412, "conditionNotMet");
    if (request.method == "GET")
      return is_media ? media(request, objects_.at(name)) : answer(200, to_text(json_of(name)));
    if (request.method != "DELETE") return unknown(request);
    objects_.erase(name);
    return answer(204);
  }

  HttpResponse media(const HttpRequest& request, const Object& object) {
    const std::vector<std::pair<std::string, std::string>> headers = {
        {"X-Goog-Generation", std::to_string(object.generation)},
        {"X-Goog-Hash", "crc32c=" + crc32c_text(crc32c(object.bytes)) + ",md5=AAAA"}};
    const auto range = request.headers.find("range");
    if (range) ranges.emplace_back(*range);
    if (!range) return answer(200, as_text(object.bytes), headers);
    const std::string_view numbers = range->substr(std::string_view("bytes=").size());
    const std::size_t dash = numbers.find('-');
    const std::size_t size = object.bytes.size(), first = *parse_size(numbers.substr(0, dash));
    if (first >= size) return answer(416, "", headers);
    const std::size_t last =
        std::min<std::size_t>(parse_size(numbers.substr(dash + 1)).value_or(size - 1), size - 1);
    HttpResponse response =
        answer(206, as_text(object.bytes).substr(first, last - first + 1), headers);
    response.headers.add("Content-Range", "bytes " + std::to_string(first) + "-" +
                                              std::to_string(last) + "/" + std::to_string(size));
    return response;
  }

  HttpResponse copy(const std::string& from, const std::string& to, const Parameters& parameters) {
    log.push_back("POST copy " + from);
    if (!objects_.contains(from)) return error(404, "notFound");
    const auto token_of_copy = parameters.find("rewriteToken");
    const int call = token_of_copy == parameters.end() ? 1 : std::stoi(token_of_copy->second);
    if (call < calls_of_copy)
      return answer(200, R"({"done": false, "rewriteToken": ")" + std::to_string(call + 1) + "\"}");
    store_locked(to, objects_.at(from).bytes, objects_.at(from).save);
    Json json = JsonObject{{"done", Json(true)}};
    json.set("resource", json_of(to));
    return answer(200, to_text(json));
  }

  static std::string save_of(std::string_view metadata) {
    const Json json = parse_json(metadata);
    const Json* user = json.find("metadata");
    return user == nullptr ? "" : *user->find(kSaveMetadata)->as_string();
  }
  static Bytes body_of(const HttpRequest& request) {
    Bytes body;
    for (const ByteView part : request.body) body.insert(body.end(), part.begin(), part.end());
    return body;
  }

  HttpResponse upload(const HttpRequest& request, const Parameters& parameters) {
    if (const auto id = parameters.find("upload_id"); id != parameters.end())
      return on_session(request, std::stoi(id->second));
    const std::string name = parameters.at("name");
    const bool is_whole = parameters.at("uploadType") == "multipart";
    log.push_back("POST " + parameters.at("uploadType") + " " + name);
    if (!is_as_expected(name, parameters)) return error(412, "conditionNotMet");
    const Bytes body = body_of(request);
    if (is_whole) return store_multipart(name, *request.headers.find("content-type"), body);
    UploadSession session{.name = name, .save = save_of(as_text(body))};
    if (const auto wanted = parameters.find("ifGenerationMatch"); wanted != parameters.end())
      session.if_generation = std::stoull(wanted->second);
    const int id = ++last_session_;
    sessions_[id] = std::move(session);
    return answer(200, "",
                  {{"Location", "https://elsewhere.test/upload/storage/v1/b/" + bucket +
                                    "/o?uploadType=resumable&upload_id=" + std::to_string(id)}});
  }

  // "--B\r\nheaders\r\n\r\nJSON\r\n--B\r\nheaders\r\n\r\nbytes\r\n--B--\r\n"
  HttpResponse store_multipart(const std::string& name, std::string_view type, ByteView body) {
    const std::string_view text = as_text(body);
    const std::string boundary =
        "\r\n--" + std::string(type.substr(type.find("boundary=") + std::strlen("boundary=")));
    const std::size_t json = text.find("\r\n\r\n") + 4, json_end = text.find(boundary, json);
    const std::size_t bytes = text.find("\r\n\r\n", json_end) + 4;
    const std::size_t end = text.rfind(boundary + "--");
    EXPECT_TRUE(json_end != std::string_view::npos && end != std::string_view::npos &&
                end >= bytes);
    const std::string_view metadata = text.substr(json, json_end - json);
    const ByteView value = body.subspan(bytes, end - bytes);
    EXPECT_EQ(*parse_json(metadata).find("crc32c")->as_string(), crc32c_text(crc32c(value)));
    store_locked(name, Bytes(value.begin(), value.end()), save_of(metadata));
    return answer(200, to_text(json_of(name)));
  }

  HttpResponse on_session(const HttpRequest& request, int id) {
    log.push_back(request.method + " session");
    const auto it = sessions_.find(id);
    if (it == sessions_.end()) return error(404, "notFound");
    if (request.method == "DELETE") {
      sessions_.erase(it);
      return answer(499);
    }
    const std::string range(*request.headers.find("content-range"));
    log.back() += " " + range;
    UploadSession& session = it->second;
    const bool asks = range == "bytes */*";
    const std::string total = range.substr(range.find('/') + 1);
    if (session.is_finished) return answer(200, to_text(json_of(session.name)));
    if (!asks) take_piece(session, range, body_of(request));
    const bool ends = total != "*" && session.bytes.size() == std::stoull(total);
    if (ends || (asks && status_finishes)) return finish(it->first);
    HttpResponse response = answer(308);
    if (!session.bytes.empty())
      response.headers.add("Range", "bytes=0-" + std::to_string(session.bytes.size() - 1));
    return response;
  }

  // The service ignores bytes that it has already.
  void take_piece(UploadSession& session, const std::string& range, ByteView body) const {
    if (range.starts_with("bytes */")) return;
    const auto first = *parse_size(range.substr(6, range.find('-') - 6));
    EXPECT_LE(first, session.bytes.size()) << "a piece leaves a gap";
    EXPECT_TRUE(!range.ends_with("/*") || body.size() % kPiece == 0);
    body = body.first(std::min<std::uint64_t>(body.size(), stores_at_most));
    if (first + body.size() <= session.bytes.size()) return;
    const ByteView rest = body.subspan(session.bytes.size() - first);
    session.bytes.insert(session.bytes.end(), rest.begin(), rest.end());
  }

  HttpResponse finish(int id) {
    UploadSession& session = sessions_.at(id);
    store_locked(session.name, std::move(session.bytes), session.save);
    session.is_finished = true;
    HttpResponse response = answer(200, to_text(json_of(session.name)));
    if (forgets_finished) sessions_.erase(id);
    return response;
  }

  mutable std::mutex mutex_;
  std::map<std::string, Object> objects_;
  std::map<int, UploadSession> sessions_;
  int last_session_ = 0;
  std::uint64_t generation_ = 1700000000000000;
};

// A client of the fake. Its waits take no time.
inline std::shared_ptr<const GcsClient> client_of(const std::shared_ptr<FakeGcs>& fake,
                                                  std::shared_ptr<Signer> signer = nullptr) {
  return std::make_shared<GcsClient>(
      "http://gcs.test", fake->bucket,
      std::make_shared<Sender>(fake, std::move(signer), policy_without_waits(), HttpLimits{},
                               std::make_shared<StoreStats>()));
}

}  // namespace cairn::object::testing

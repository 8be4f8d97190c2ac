// fake_hub.h -- the Hugging Face Hub and its delivery network in memory, as an HttpTransport. Large
// files are on the network, at addresses that expire. A request that it does not know fails the
// test, and so does a token that leaves the Hub.
#pragma once

#include <cairn/base/json/json.h>
#include <cairn/base/text.h>
#include <cairn/kvstore/object/request/content_range.h>
#include <cairn/kvstore/object/request/percent.h>
#include <cairn/kvstore/object/transport/http.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/kvstore/object/support/scripted_transport.h"

namespace cairn::object::testing {

class FakeHub : public HttpTransport {
 public:
  static constexpr std::string_view kHub = "https://hub.test", kNetwork = "https://network.test";
  static constexpr std::size_t kLarge = 100;  // bytes; files from this size on are on the network

  std::map<std::string, std::string> files;  // path -> content
  std::string commit = std::string(40, 'c');
  std::string token;  // "": everyone may read
  std::size_t page_size = 1000;
  bool ignores_ranges = false;    // of small files
  bool redirects_inside = false;  // small files move once within the Hub
  std::function<void(HttpResponse&)> change_answer = [](HttpResponse&) {};
  std::vector<std::string> log;  // "GET https://network.test/1/a", in order

  // All addresses of the network that were given so far are of no use any more.
  void expire() { first_valid_ = next_address_; }
  [[nodiscard]] std::size_t count(std::string_view what) const {
    return static_cast<std::size_t>(std::ranges::count_if(
        log, [&](const std::string& line) { return line.starts_with(what); }));
  }

  std::variant<HttpResponse, TransportError> send(const HttpRequest& request,
                                                  const HttpLimits& /*limits*/) override {
    const std::scoped_lock lock(mutex_);
    log.push_back(request.method + " " + request.url);
    HttpResponse response = answer_to(request);
    change_answer(response);
    return deliver(request, std::move(response));
  }

 private:
  static std::variant<HttpResponse, TransportError> deliver(const HttpRequest& request,
                                                            HttpResponse response) {
    std::size_t room = 0;
    for (const MutableByteView part : request.into) room += part.size();
    response.received = response.body.size();
    const bool is_good = response.status / 100 == 2;
    const bool goes_into = is_good && !request.into.empty();
    if (goes_into ? response.received != room : is_good && response.received > request.most_body)
      return TransportError{.delivery = Delivery::kAnswered,
                            .is_final = true,
                            .why = "the answer has another length than expected"};
    if (!goes_into) return response;
    ByteView bytes = response.body;
    for (const MutableByteView part : request.into) {
      if (part.data() != nullptr) std::ranges::copy(bytes.first(part.size()), part.begin());
      bytes = bytes.subspan(part.size());
    }
    if (request.filled != nullptr) *request.filled = response.received;
    response.body.clear();
    return response;
  }

  HttpResponse answer_to(const HttpRequest& request) {
    const auto authorization = request.headers.find("authorization");
    if (request.url.starts_with(kNetwork)) {
      EXPECT_FALSE(authorization) << "the token left the Hub";
      return on_network(request);
    }
    if (!request.url.starts_with(kHub)) return unknown(request);
    if (!token.empty() && authorization != "Bearer " + token) return answer(401);
    return on_hub(request, std::string_view(request.url).substr(kHub.size()));
  }

  HttpResponse on_hub(const HttpRequest& request, std::string_view target) {
    const std::string api = "/api/models/me/model", tree = api + "/tree/" + commit;
    const std::string resolve = "/me/model/resolve/" + commit + "/";
    if (target.starts_with(api + "/revision/")) return revision(target.substr(api.size() + 10));
    if (target.starts_with(tree)) return list(target.substr(tree.size()));
    for (const std::string& begin : {resolve, std::string("/moved/")})
      if (target.starts_with(begin))
        return file(request, percent_decoded_text(target.substr(begin.size())).value(),
                    begin != resolve);
    if (target.find("/me/model/") == std::string_view::npos) return missing("RepoNotFound");
    return unknown(request);
  }
  HttpResponse unknown(const HttpRequest& request) {
    ADD_FAILURE() << "the fake does not know " << request.method << " " << request.url;
    return answer(400, "x");
  }
  static HttpResponse missing(const std::string& code) {
    return answer(404, R"({"error": "not found"})", {{"X-Error-Code", code}});
  }

  HttpResponse revision(std::string_view encoded) const {
    const auto name = percent_decoded_text(encoded);
    if (name != "main" && name != "refs/pr/1" && name != commit) return missing("RevisionNotFound");
    return answer(200, R"({"id": "me/model", "siblings": [{}], "sha": ")" + commit + "\"}");
  }

  HttpResponse list(std::string_view target) const {
    const std::size_t question = target.find('?');
    std::string folder = percent_decoded_text(target.substr(0, question)).value();
    if (!folder.empty()) folder = folder.substr(1) + "/";
    const std::string_view query = target.substr(question);
    const bool recursive = query.find("recursive=true") != std::string_view::npos;
    const JsonArray all = entries(folder, recursive);
    if (all.empty() && !folder.empty()) return missing("EntryNotFound");
    const std::size_t cursor = query.find("cursor=");
    const std::size_t first =
        cursor == std::string_view::npos ? 0 : std::stoul(std::string(query.substr(cursor + 7)));
    const std::size_t last = std::min(all.size(), first + page_size);
    const auto at = [&](std::size_t i) { return all.begin() + static_cast<std::ptrdiff_t>(i); };
    HttpResponse response = answer(200, to_text(JsonArray(at(first), at(last))));
    if (last < all.size())
      response.headers.add("Link", "<https://mirror.test/api/models/me/model/tree/" + commit +
                                       std::string(target.substr(0, question)) +
                                       "?recursive=" + (recursive ? "true" : "false") +
                                       "&cursor=" + std::to_string(last) + ">; rel=\"next\"");
    return response;
  }
  [[nodiscard]] JsonArray entries(const std::string& folder, bool recursive) const {
    JsonArray all;
    std::set<std::string> folders;
    for (const auto& [path, content] : files) {
      if (!path.starts_with(folder)) continue;
      const std::size_t slash = path.find('/', folder.size());
      if (slash != std::string::npos && folders.insert(path.substr(0, slash)).second)
        all.push_back(JsonObject{{"type", Json("directory")},
                                 {"oid", Json("t")},
                                 {"size", Json(0)},
                                 {"path", Json(path.substr(0, slash))}});
      if (slash == std::string::npos || recursive) all.push_back(entry(path, content));
    }
    return all;
  }
  static std::string hash_of(const std::string& content) {
    return "h" + std::to_string(std::hash<std::string>()(content));
  }
  static Json entry(const std::string& path, const std::string& content) {
    Json json = JsonObject{{"type", Json("file")},
                           {"oid", Json(hash_of(content))},
                           {"size", Json(std::uint64_t{content.size()})},
                           {"path", Json(path)}};
    if (content.size() >= kLarge)
      json.set("lfs", JsonObject{{"oid", Json(hash_of(content))}, {"pointerSize", Json(134)}});
    return json;
  }

  HttpResponse file(const HttpRequest& request, const std::string& path, bool is_moved) {
    const auto it = files.find(path);
    if (it == files.end()) return missing("EntryNotFound");
    const std::string& content = it->second;
    const std::string etag = "\"" + hash_of(content) + "\"";
    if (content.size() >= kLarge)
      return answer(302, "",
                    {{"Location", address_of(path)},
                     {"X-Linked-Size", std::to_string(content.size())},
                     {"X-Linked-ETag", etag}});
    if (redirects_inside && !is_moved)
      return answer(307, "", {{"Location", "/moved/" + percent_encoded(path, Slash::kKept)}});
    if (request.method == "HEAD")
      return answer(200, "",
                    {{"Content-Length", std::to_string(content.size())}, {"ETag", "W/" + etag}});
    return bytes(request, content, ignores_ranges);
  }
  std::string address_of(const std::string& path) {
    return std::string(kNetwork) + "/" + std::to_string(next_address_++) + "/" +
           percent_encoded(path, Slash::kKept) + "?Signature=s3cret";
  }
  HttpResponse on_network(const HttpRequest& request) {
    std::string_view target = std::string_view(request.url).substr(kNetwork.size() + 1);
    target = target.substr(0, target.find('?'));
    const std::size_t slash = target.find('/');
    if (std::stoi(std::string(target.substr(0, slash))) < first_valid_)
      return answer(403, "<Error>");
    return bytes(request, files.at(percent_decoded_text(target.substr(slash + 1)).value()), false);
  }
  static HttpResponse bytes(const HttpRequest& request, const std::string& content, bool is_whole) {
    const auto range = request.headers.find("range");
    if (!range || is_whole) return answer(200, content);
    const std::string_view numbers = range->substr(std::string_view("bytes=").size());
    const std::size_t dash = numbers.find('-');
    const std::size_t first = *parse_size(numbers.substr(0, dash));
    const std::size_t last = *parse_size(numbers.substr(dash + 1));
    EXPECT_LT(last, content.size());
    return answer(206, std::string_view(content).substr(first, last - first + 1),
                  {{"Content-Range",
                    "bytes " + std::string(numbers) + "/" + std::to_string(content.size())}});
  }

  std::mutex mutex_;
  int next_address_ = 1, first_valid_ = 0;
};

}  // namespace cairn::object::testing

#include <cairn/kvstore/object/http/hub_client.h>

#include <cairn/base/errors.h>
#include <cairn/kvstore/object/http/http_redirect.h>
#include <cairn/kvstore/object/http/hub_error.h>
#include <cairn/kvstore/object/object_source.h>
#include <cairn/kvstore/object/request/content_range.h>
#include <cairn/kvstore/object/request/percent.h>
#include <cairn/kvstore/object/request/store_error.h>
#include <cairn/kvstore/object/request/url.h>
#include <cairn/kvstore/range.h>

#include <algorithm>
#include <utility>

namespace cairn::inline v0::object {
namespace {

constexpr std::size_t kMostFilesKnown = 10'000;
// A server that ignores ranges is asked for the whole of a file up to this size.
constexpr std::uint64_t kMostReadWhole = std::uint64_t{16} << 20U;

// Signed addresses of the delivery network end like this when their time is over.
bool has_expired(const HttpResponse& response) {
  const int status = response.status;
  return status == 401 || status == 403 || status == 404 || status == 410;
}

// Of the last path of redirects, "abc" for "W/\"abc\"".
std::string hash_of_etag(std::string_view etag) {
  if (etag.starts_with("W/")) etag.remove_prefix(2);
  if (etag.size() >= 2 && etag.starts_with('"') && etag.ends_with('"'))
    etag = etag.substr(1, etag.size() - 2);
  return std::string(etag);
}

// Size and hash, if an answer to HEAD says them.
std::optional<HubFile> file_of(const HttpResponse& response, std::string address) {
  const auto linked = response.headers.find("x-linked-size");
  const auto length = response.status == 200 ? response.headers.find("content-length")
                                             : std::optional<std::string_view>();
  const auto size = linked ? parse_size(*linked) : length ? parse_size(*length) : std::nullopt;
  if (!size) return std::nullopt;
  const auto hash = response.headers.find("x-linked-etag");
  const auto etag = hash ? hash : response.headers.find("etag");
  return HubFile{
      .size = *size, .version = hash_of_etag(etag.value_or("")), .address = std::move(address)};
}

// The address that an answer points to. Throws for one that must not be followed.
std::string redirected(const std::string& from, const HttpResponse& response) {
  const auto to = resolve_location(from, response.headers.find("location").value_or(""));
  if (!to) throw Error(Code::kIo, "the server redirects to an address that Cairn does not follow");
  check_redirect(from, *to);
  return *to;
}

HttpRequest simple_request(std::string method, std::string url) {
  return {.method = std::move(method), .url = std::move(url), .most_body = kMostHubReply};
}

// Whether an answer holds the bytes that were asked for last.
void check_part(const RangeProgress& progress, const HttpResponse& response) {
  if (response.status == 200 && progress.offset() == 0) return;
  const auto header = response.headers.find("content-range");
  const auto part = header ? parse_content_range(*header) : std::nullopt;
  if (response.status != 206 || !part || part->first != progress.offset() ||
      part->length != progress.length())
    throw WrongAnswer("the server answered with another range than was asked for");
}

}  // namespace

HubClient::HubClient(std::string endpoint, HubUrl url, std::shared_ptr<Sender> sender,
                     std::shared_ptr<Sender> unsigned_sender)
    : endpoint_(std::move(endpoint)),
      url_(std::move(url)),
      sender_(std::move(sender)),
      unsigned_sender_(std::move(unsigned_sender)) {}

// Threads that need the commit at the same time wait for one request.
std::string HubClient::commit() const {
  const std::scoped_lock lock(mutex_);
  if (!commit_.empty()) return commit_;
  const auto make = [&] {
    return simple_request("GET", endpoint_ + "/api/" + url_.kind + "/" + url_.repository +
                                     "/revision/" +
                                     percent_encoded(url_.revision, Slash::kEncoded));
  };
  const Answer answer = sender_->send(make, {.what = "look-up"});
  if (answer.response.status != 200) throw error_of_hub(url_, make(), answer.response);
  commit_ = parse_answer(make(), answer.response, parse_hub_commit);
  return commit_;
}

Sender& HubClient::sender_for(const std::string& address) const {
  return origin_of(address) == origin_of(endpoint_) ? *sender_ : *unsigned_sender_;
}

std::optional<HubFile> HubClient::look_up(const std::string& path) const {
  const std::string folder = url_.kind == "models" ? "/" : "/" + url_.kind + "/";
  std::string address = endpoint_ + folder + url_.repository + "/resolve/" + commit() + "/" +
                        percent_encoded(path, Slash::kKept);
  for (int redirects = 0; redirects <= kMostRedirects; ++redirects) {
    const auto make = [&] { return simple_request("HEAD", address); };
    const Answer answer = sender_for(address).send(make, {.what = "look-up"});
    const HttpResponse& response = answer.response;
    if (is_missing_file(response)) return std::nullopt;
    if (response.status != 200 && !is_redirect(response.status))
      throw error_of_hub(url_, make(), response);
    if (is_redirect(response.status)) address = redirected(address, response);
    if (auto file = file_of(response, address)) return file;
    if (response.status == 200)
      throw Error(Code::kIo, place_of(make()) + ": the Hub does not say how large the file is");
  }
  throw Error(Code::kIo, "the Hub redirects without end");
}

std::optional<HubFile> HubClient::find(const std::string& path) const {
  {
    const std::scoped_lock lock(mutex_);
    if (const auto it = files_.find(path); it != files_.end()) return it->second;
  }
  auto file = look_up(path);
  if (file) remember(path, *file);
  return file;
}

void HubClient::remember(const std::string& path, const HubFile& file) const {
  const std::scoped_lock lock(mutex_);
  if (files_.size() >= kMostFilesKnown) files_.clear();
  files_[path] = file;
}

void HubClient::forget(const std::string& path) const {
  const std::scoped_lock lock(mutex_);
  files_.erase(path);
}

bool HubClient::read_at(std::string& address, std::uint64_t offset,
                        std::span<const MutableByteView> parts, bool may_have_expired) const {
  RangeProgress progress(offset, parts);
  for (int redirects = 0; redirects <= kMostRedirects; ++redirects) {
    const auto make = [&] {
      HttpRequest request{.method = "GET", .url = address};
      progress.prepare(request);
      return request;
    };
    const Answer answer = sender_for(address).send(make, {.what = "read"});
    if (may_have_expired && has_expired(answer.response)) return false;
    if (!is_redirect(answer.response.status)) {
      if (answer.response.status / 100 != 2) throw error_of_answer(make(), answer.response);
      check_part(progress, answer.response);
      return true;
    }
    address = redirected(address, answer.response);
  }
  throw Error(Code::kIo, "the server redirects without end");
}

// Reads the whole file for a part of it.
void HubClient::read_small(const HubFile& file, std::uint64_t offset,
                           std::span<const MutableByteView> parts) const {
  const auto make = [&] {
    return HttpRequest{.method = "GET", .url = file.address, .most_body = file.size};
  };
  const Answer answer = sender_for(file.address).send(make, {.what = "read"});
  if (answer.response.status != 200) throw error_of_answer(make(), answer.response);
  if (answer.response.body.size() != file.size)
    throw WrongAnswer("the file has another size than the Hub says");
  scatter(ByteView(answer.response.body).subspan(offset), parts);
}

void HubClient::read(const std::string& path, std::uint64_t offset,
                     std::span<const MutableByteView> parts) const {
  for (const bool is_first : {true, false}) {
    auto file = find(path);
    if (!file) break;
    try {
      if (read_at(file->address, offset, parts, is_first)) {
        remember(path, *file);
        return;
      }
    } catch (const WrongAnswer&) {
      if (file->size > kMostReadWhole) throw;
      return read_small(*file, offset, parts);
    }
    forget(path);  // resolve it again
  }
  throw Error(Code::kUnavailable, "was removed while Cairn read it; open it again");
}

std::vector<HubEntry> HubClient::list(const std::string& folder, bool recursive) const {
  std::string url = endpoint_ + "/api/" + url_.kind + "/" + url_.repository + "/tree/" + commit();
  if (!folder.empty()) url += "/" + percent_encoded(folder, Slash::kEncoded);
  url += recursive ? "?recursive=true" : "?recursive=false";
  std::vector<HubEntry> entries;
  for (;;) {
    const auto make = [&] { return simple_request("GET", url); };
    const Answer answer = sender_->send(make, {.what = "list"});
    if (is_missing_file(answer.response)) return entries;
    if (answer.response.status != 200) throw error_of_hub(url_, make(), answer.response);
    for (HubEntry& entry : parse_answer(make(), answer.response, parse_hub_tree))
      entries.push_back(std::move(entry));
    const auto link = answer.response.headers.find("link");
    const auto next = link ? next_of_link(*link) : std::nullopt;
    if (!next) return entries;
    std::string next_url = next_page(*next);
    if (next_url == url) throw WrongAnswer("the Hub's listing does not end");
    url = std::move(next_url);
  }
}

// The token is for our endpoint alone, whatever host the link names.
std::string HubClient::next_page(std::string_view link) const {
  const std::string_view target = link.substr(origin_of(link).size());
  const bool is_plain =
      std::all_of(target.begin(), target.end(), [](char c) { return c > ' ' && c <= '~'; });
  if (!is_plain || !target.starts_with('/'))
    throw WrongAnswer("the Hub's listing has a malformed link");
  return std::string(origin_of(endpoint_)) + std::string(target);
}

}  // namespace cairn::inline v0::object

// gcs_client.cc -- builds the requests of the JSON API and checks the answers.
#include <cairn/kvstore/object/gcs/gcs_client.h>

#include <cairn/base/checksum.h>
#include <cairn/base/errors.h>
#include <cairn/kvstore/object/gcs/gcs_request.h>
#include <cairn/kvstore/object/object_source.h>
#include <cairn/kvstore/object/request/content_range.h>
#include <cairn/kvstore/object/request/percent.h>
#include <cairn/kvstore/object/request/store_error.h>

#include <utility>

namespace cairn::inline v0::object {
namespace {

// Adds "Range: bytes=10-19", or "bytes=10-", unless the whole object is wanted.
void add_range(const GcsGet& get, HttpRequest& request) {
  request.into = get.into;
  request.most_body = get.length.value_or(get.most);
  if (get.offset == 0 && !get.length) return;
  const std::string first = "bytes=" + std::to_string(get.offset) + "-";
  request.headers.add("Range",
                      get.length ? first + std::to_string(get.offset + *get.length - 1) : first);
}

std::string media_url(std::string url, const GcsGet& get) {
  const auto pinned = get.generation == 0 ? std::nullopt : std::optional(get.generation);
  return UrlQuery(std::move(url)).add("alt", "media").add_number("ifGenerationMatch", pinned).url();
}

// Throws unavailable if a read of one generation got another one, or none.
void check_generation(const GcsGet& get, const HttpResponse& response) {
  if (get.generation == 0) return;
  const auto found = response.headers.find("x-goog-generation");
  const bool is_other = is_success(response) && found && parse_size(*found) != get.generation;
  if (response.status == 412 || response.status == 404 || is_other)
    throw Error(Code::kUnavailable, "was replaced or removed while Cairn read it; open it again");
}

// The part of the object that an answer holds. Throws WrongAnswer if it is not what was asked for.
ContentRange part_of(const ByteRange& asked, const HttpResponse& response) {
  if (response.status == 200) {
    const bool is_whole =
        asked.offset == 0 && (!asked.length || response.received <= *asked.length);
    if (!is_whole) throw WrongAnswer("the store ignored the range that was asked for");
    return {.first = 0, .length = response.received, .total = response.received};
  }
  const auto header = response.headers.find("content-range");
  const auto part = header ? parse_content_range(*header) : std::nullopt;
  if (response.status != 206 || !part || part->first != asked.offset ||
      part->length != response.received)
    throw WrongAnswer("the store answered with another range than was asked for");
  const bool is_short = part->total && part->first + part->length < *part->total &&
                        (!asked.length || part->length < *asked.length);
  if (is_short) throw WrongAnswer("the store answered with less than was asked for");
  return *part;
}

// Whole objects come with their checksum.
void check_whole(const GcsGet& get, std::uint64_t size, const HttpResponse& response) {
  const bool is_placed = get.into.size() == 1 && get.into[0].data() != nullptr;
  const ByteView bytes = is_placed ? ByteView(get.into[0]) : ByteView(response.body);
  if (get.offset != 0 || bytes.size() != size) return;
  const auto hash = response.headers.find("x-goog-hash");
  const auto expected = hash ? crc32c_of_hash(*hash) : std::nullopt;
  if (expected && crc32c(bytes) != *expected)
    data_loss("the bytes do not match the store's crc32c");
}

GcsMedia media_of(const GcsGet& get, const ContentRange& part, HttpResponse response) {
  const std::uint64_t size = part.total.value_or(part.first + part.length);
  check_whole(get, size, response);
  return {.bytes = std::move(response.body), .size = size};
}

}  // namespace

GcsClient::GcsClient(std::string endpoint, std::string bucket, std::shared_ptr<Sender> sender)
    : endpoint_(std::move(endpoint)), bucket_(std::move(bucket)), sender_(std::move(sender)) {}

std::string GcsClient::bucket_in_url() const { return percent_encoded(bucket_, Slash::kEncoded); }

std::string GcsClient::list_url() const {
  return endpoint_ + "/storage/v1/b/" + bucket_in_url() + "/o";
}

std::string GcsClient::object_url(std::string_view name) const {
  return list_url() + "/" + percent_encoded(name, Slash::kEncoded);
}

// Throws for every answer that no caller can use.
Answer GcsClient::send(const MakeRequest& make, const RequestFacts& facts) const {
  Answer answer = sender_->send(make, facts);
  const int status = answer.response.status;
  if (is_success(answer.response)) bucket_exists_ = true;
  const bool is_answer = is_success(answer.response) || status == 304 || status == 308 ||
                         status == 404 || status == 410 || status == 412 || status == 416;
  if (!is_answer) throw error_of_answer(make(), answer.response);
  return answer;
}

void GcsClient::fail_no_bucket() const {
  throw Error(Code::kNotFound, "gs://" + bucket_ + ": no such bucket");
}

void GcsClient::check_bucket() const {
  if (bucket_exists_) return;
  const auto make = without_body(
      "GET", UrlQuery(list_url()).add_number("maxResults", 1).add("fields", "kind").url());
  const Answer answer = sender_->send(make, {.what = "list"});
  if (answer.response.status == 404) fail_no_bucket();
  bucket_exists_ = true;  // or we may not know: the service says 403 then
}

std::optional<GcsObject> GcsClient::find(std::string_view name) const {
  const auto make =
      without_body("GET", UrlQuery(object_url(name)).add("fields", kGcsObjectFields).url());
  const Answer answer = send(make, {.what = "look-up"});
  if (is_success(answer.response)) return parse_answer(make(), answer.response, parse_gcs_object);
  if (answer.response.status != 404) throw error_of_answer(make(), answer.response);
  check_bucket();
  return std::nullopt;
}

std::optional<GcsMedia> GcsClient::get(const GcsGet& get) const {
  // An answer may be damaged on its way.
  try {
    return get_once(get);
  } catch (const WrongAnswer&) {
  } catch (const Error& e) {
    if (e.code() != Code::kDataLoss) throw;
  }
  return get_once(get);
}

std::optional<GcsMedia> GcsClient::get_once(const GcsGet& get) const {
  const std::string url = media_url(object_url(get.name), get);
  // Bytes that have arrived are kept for the next try, if they must be of the same generation.
  std::optional<RangeProgress> progress;
  if (get.generation != 0 && !get.into.empty()) progress.emplace(get.offset, get.into);
  const auto make = [&] {
    HttpRequest request{.method = "GET", .url = url};
    progress ? progress->prepare(request) : add_range(get, request);
    return request;
  };
  Answer answer = send(make, {.what = "read"});
  check_generation(get, answer.response);
  if (answer.response.status == 404) {
    check_bucket();
    return std::nullopt;
  }
  if (answer.response.status == 416) return GcsMedia{.is_outside = true};
  if (!is_success(answer.response)) throw error_of_answer(make(), answer.response);
  const ByteRange asked = progress ? ByteRange{progress->offset(), progress->length()}
                                   : ByteRange{get.offset, get.length};
  const ContentRange part = part_of(asked, answer.response);
  return media_of(get, part, std::move(answer.response));
}

GcsPage GcsClient::list(const GcsList& list) const {
  UrlQuery query(list_url());
  query.add("prefix", list.prefix).add_number("maxResults", list.most);
  if (list.one_level) query.add("delimiter", "/");
  if (!list.page_token.empty()) query.add("pageToken", list.page_token);
  query.add("fields", "items(name,size,generation,timeCreated),prefixes,nextPageToken");
  const auto make = without_body("GET", query.url(), kMostGcsPage);
  const Answer answer = send(make, {.what = "list"});
  if (answer.response.status == 404) fail_no_bucket();
  if (!is_success(answer.response)) throw error_of_answer(make(), answer.response);
  return parse_answer(make(), answer.response, parse_gcs_page);
}

void GcsClient::remove(std::string_view name, std::optional<std::uint64_t> if_generation) const {
  const auto make = without_body(
      "DELETE", UrlQuery(object_url(name)).add_number("ifGenerationMatch", if_generation).url());
  const Answer answer = send(make, {.what = "removal"});
  const int status = answer.response.status;
  if (status == 404) check_bucket();
  if (!is_success(answer.response) && status != 404 && !(status == 412 && if_generation))
    throw error_of_answer(make(), answer.response);
}

bool GcsClient::copy(std::string_view from, std::string_view to) const {
  const std::string url = object_url(from) + "/rewriteTo/b/" + bucket_in_url() + "/o/" +
                          percent_encoded(to, Slash::kEncoded);
  std::string token;
  for (;;) {
    UrlQuery query(url);
    query.add("fields", "done,rewriteToken,resource(name,size,generation)");
    if (!token.empty()) query.add("rewriteToken", token);
    const auto make = without_body("POST", query.url());
    const Answer answer = send(make, {.what = "copy"});
    if (answer.response.status == 404) {
      check_bucket();
      return false;
    }
    if (!is_success(answer.response)) throw error_of_answer(make(), answer.response);
    GcsRewrite rewrite = parse_answer(make(), answer.response, parse_gcs_rewrite);
    if (rewrite.is_done) return true;
    token = std::move(rewrite.token);
  }
}

}  // namespace cairn::inline v0::object

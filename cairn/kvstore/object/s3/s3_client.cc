// s3_client.cc -- the calls that read, list and remove objects.
#include <cairn/kvstore/object/s3/s3_client.h>

#include <cairn/base/errors.h>
#include <cairn/kvstore/object/object_source.h>
#include <cairn/kvstore/object/request/content_range.h>
#include <cairn/kvstore/object/request/listing_limits.h>
#include <cairn/kvstore/object/request/percent.h>
#include <cairn/kvstore/object/request/store_error.h>
#include <cairn/kvstore/object/request/store_time.h>
#include <cairn/kvstore/object/s3/upload_check.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace cairn::inline v0::object {
namespace {

// Bodies of errors and of short results.
constexpr std::uint64_t kMostReply = std::uint64_t{64} << 10U;
// A page of a listing: 1000 keys of 1024 bytes, each of them encoded as three, and elements.
constexpr std::uint64_t kMostPage = std::uint64_t{16} << 20U;

std::string with_quotes(std::string_view etag) {
  if (etag.empty() || etag.ends_with('"')) return std::string(etag);
  return "\"" + std::string(etag) + "\"";
}

ObjectHead head_of(const HttpResponse& response) {
  ObjectHead head;
  if (const auto etag = response.headers.find("etag")) head.version = with_quotes(*etag);
  if (const auto time = response.headers.find("last-modified"))
    head.modified_ns = ns_of_http_date(*time);
  if (const auto id = response.headers.find("x-amz-meta-cairn-save")) head.save_id = *id;
  return head;
}

// "bytes=5-9", "bytes=5-". The last byte of a range without an end or beyond all is left out.
std::string range_header(const ByteRange& range) {
  std::string text = "bytes=" + std::to_string(range.offset) + "-";
  if (range.length) text += std::to_string(range.offset + (*range.length - 1));
  return text;
}

// What a GET was answered with, against what was asked for. Returns "" and sets the size of the
// object, or says what is wrong.
std::string flaw_of_part(const S3Read& read, const HttpResponse& response, std::uint64_t& size) {
  if (response.status == 200) {
    size = response.received;
    const bool is_all = !read.range || (read.range->offset == 0 &&
                                        (!read.range->length || size <= *read.range->length));
    return is_all ? "" : "the store sent the whole object instead of a part";
  }
  const auto text = response.headers.find("content-range");
  const auto part = text ? parse_content_range(*text) : std::nullopt;
  if (!read.range || !part || part->length == 0 || !part->total)
    return "the answer does not say which part it holds";
  size = *part->total;
  const std::uint64_t behind = size - part->first;
  const std::uint64_t wanted = std::min(read.range->length.value_or(behind), behind);
  if (part->first != read.range->offset || part->length != wanted)
    return "the store sent another part than that which was asked for";
  return part->length == response.received ? "" : "the body has another length than the part";
}

// The store's own checksum of a whole object, if it sent one.
bool has_wrong_checksum(const HttpResponse& response, bool is_whole) {
  const auto sent = response.headers.find("x-amz-checksum-crc32c");
  if (!is_whole || !sent || sent->find('-') != std::string_view::npos) return false;
  const ByteView body = response.body;
  return *sent != crc32c_text({&body, 1});
}

std::string flaw_of_get(const S3Read& read, const HttpResponse& response, ObjectHead& head) {
  head = head_of(response);
  std::string flaw = flaw_of_part(read, response, head.size);
  if (!flaw.empty()) return flaw;
  const bool is_other = !read.version.empty() && head.version != read.version;
  return is_other ? "the store sent another version than that which was asked for" : "";
}

[[noreturn]] void fail_replaced(const HttpRequest& request) {
  throw Error(Code::kUnavailable,
              place_of(request) + ": was replaced or removed while Cairn read it; open it again");
}

bool is_moved(const HttpResponse& response, const ErrorReply& reply) {
  return response.status == 301 || response.status == 307 ||
         reply.code == "AuthorizationHeaderMalformed" ||
         (response.status == 400 && reply.code.empty());
}

}  // namespace

S3Client::S3Client(S3Address address, std::shared_ptr<S3Signer> signer,
                   const S3Connection& connection)
    : address_(std::move(address)),
      signer_(std::move(signer)),
      connection_(connection),
      sender_(connection.transport, signer_, connection.policy, connection.limits,
              connection.stats) {}

Answer S3Client::ask(const RequestFacts& facts, const Make& make) {
  Answer answer = sender_.send(make, facts);
  if (answer.response.status >= 300) {
    const ErrorReply reply = error_reply_of(answer.response);
    if (is_moved(answer.response, reply) && signer_->learn_region(reply.region))
      answer = sender_.send(make, facts);
  }
  const int status = answer.response.status;
  if ((status >= 200 && status < 300) || error_reply_of(answer.response).code == "NoSuchKey")
    has_seen_bucket_ = true;
  return answer;
}

HttpRequest S3Client::request(std::string method, std::string_view key, const Query& query) const {
  return {.method = std::move(method),
          .url = address_.url(signer_->region(), key, query),
          .most_body = kMostReply};
}

void S3Client::refuse(const Make& make, const HttpResponse& response) {
  throw error_of_answer(make(), response);
}

bool S3Client::is_absent(const Make& make, const HttpResponse& response) {
  if (response.status != 404) return false;
  const std::string code = error_reply_of(response).code;
  if (code == "NoSuchBucket") refuse(make, response);
  if (code != "NoSuchKey") check_bucket();
  return true;
}

// The answer to HEAD has no body, so it does not say whether the bucket or the object is missing.
void S3Client::check_bucket() {
  if (has_seen_bucket_) return;
  const Make make = [&] { return request("HEAD", ""); };
  const Answer answer = ask({.what = "check of the bucket"}, make);
  if (answer.response.status == 404)
    throw Error(Code::kNotFound, place_of(make()) + ": no such bucket");
  has_seen_bucket_ = true;
}

std::optional<ObjectHead> S3Client::head(std::string_view key) {
  const Make make = [&] { return request("HEAD", key); };
  Answer answer = ask({.what = "check"}, make);
  if (answer.response.status >= 400 && answer.response.status != 404) {
    explain_refusal(key, answer.response.status);
    answer = ask({.what = "check"}, make);
  }
  if (is_absent(make, answer.response)) return std::nullopt;
  if (answer.response.status != 200) refuse(make, answer.response);
  ObjectHead head = head_of(answer.response);
  const auto length = answer.response.headers.find("content-length");
  const auto size = length ? parse_size(*length) : std::nullopt;
  if (!size)
    throw WrongAnswer(place_of(make()) + ": the answer does not say how large the object is");
  head.size = *size;
  return head;
}

// The answer to HEAD does not say why the store refuses: the answer to GET does, and may name the
// region. Throws if GET is refused, too.
void S3Client::explain_refusal(std::string_view key, int status) {
  const Make make = [&] {
    HttpRequest first = request("GET", key);
    first.headers.add("range", "bytes=0-0");
    return first;
  };
  const Answer answer = ask({.what = "check"}, make);
  if (answer.response.status == status) refuse(make, answer.response);
}

HttpRequest S3Client::read_request(const S3Read& read) const {
  HttpRequest get = request("GET", read.key);
  if (!read.version.empty()) get.headers.add("if-match", std::string(read.version));
  if (!read.range) get.headers.add("x-amz-checksum-mode", "ENABLED");
  get.most_body = read.most;
  return get;
}

// Sends one read. A body that breaks off goes on where it ended, if the version is pinned: else the
// rest could be that of another object.
Answer S3Client::send_read(S3Read& read) {
  if (read.version.empty() || read.into.empty())
    return ask({.what = "read"}, [&] {
      HttpRequest get = read_request(read);
      if (read.range) get.headers.add("range", range_header(*read.range));
      get.into = read.into;
      return get;
    });
  RangeProgress progress(read.range->offset, read.into);
  Answer answer = ask({.what = "read"}, [&] {
    HttpRequest get = read_request(read);
    progress.prepare(get);
    return get;
  });
  read.range = ByteRange{progress.offset(), progress.length()};
  return answer;
}

std::optional<S3Got> S3Client::get(const S3Read& read) {
  const Make make = [&] { return read_request(read); };
  const bool is_whole = !read.range && read.into.empty();
  for (int tries = 1;; ++tries) {
    S3Read asked = read;
    Answer answer = send_read(asked);
    const int status = answer.response.status;
    if (!read.version.empty() && (status == 412 || status == 404)) fail_replaced(make());
    if (is_absent(make, answer.response)) return std::nullopt;
    if (status != 200 && status != 206) refuse(make, answer.response);
    S3Got got;
    const std::string flaw = flaw_of_get(asked, answer.response, got.head);
    const bool is_damaged = flaw.empty() && has_wrong_checksum(answer.response, is_whole);
    if (flaw.empty() && !is_damaged) {
      got.body = std::move(answer.response.body);
      return got;
    }
    if (tries == 1) continue;
    if (is_damaged)
      data_loss(place_of(make()) + ": the bytes do not have the checksum that the store sent");
    throw WrongAnswer(place_of(make()) + ": " + flaw);
  }
}

ListPage S3Client::list(std::string_view prefix, std::string_view delimiter,
                        const std::string& next) {
  const Make make = [&] {
    Query query = {{"list-type", "2"}, {"encoding-type", "url"}};
    if (!next.empty()) query.emplace_back("continuation-token", next);
    if (!delimiter.empty()) query.emplace_back("delimiter", delimiter);
    if (!prefix.empty()) query.emplace_back("prefix", prefix);
    HttpRequest list = request("GET", "", query);
    list.most_body = kMostPage;
    return list;
  };
  const Answer answer = ask({.what = "listing"}, make);
  if (answer.response.status != 200) refuse(make, answer.response);
  ListPage page = parse_answer(make(), answer.response, parse_list_page);
  for (StoredValue& value : page.values) value.version = with_quotes(value.version);
  if (!page.next.empty() && page.next == next)
    throw WrongAnswer(place_of(make()) + ": the pages of the listing repeat");
  return page;
}

void S3Client::remove(std::string_view key) {
  const Make make = [&] { return request("DELETE", key); };
  const Answer answer = ask({.what = "removal"}, make);
  const int status = answer.response.status;
  if (status != 200 && status != 204 && !is_absent(make, answer.response))
    refuse(make, answer.response);
}

bool S3Client::copy(std::string_view from, std::string_view to) {
  const Make make = [&] {
    HttpRequest put = request("PUT", to);
    put.headers.add("x-amz-copy-source",
                    "/" + address_.bucket + "/" + percent_encoded(from, Slash::kKept));
    return put;
  };
  const Answer answer = ask({.what = "copy", .ok_may_hold_error = true}, make);
  if (answer.response.status == 501 || answer.response.status == 405) return false;
  // S3 copies at most 5 GiB at once.
  if (error_reply_of(answer.response).code == "InvalidRequest") return false;
  if (is_absent(make, answer.response)) return false;
  if (answer.response.status != 200) refuse(make, answer.response);
  const ObjectResult result = parse_answer(make(), answer.response, parse_object_result);
  if (!result.error.empty()) refuse(make, answer.response);
  return true;
}

std::vector<OpenUpload> S3Client::uploads(std::string_view prefix) {
  std::vector<OpenUpload> all;
  UploadPage page;
  ListingLimits limits;
  do {
    const Make make = [&] {
      Query query = {{"uploads", ""}, {"encoding-type", "url"}};
      if (!prefix.empty()) query.emplace_back("prefix", prefix);
      if (!page.next_key.empty()) query.emplace_back("key-marker", page.next_key);
      if (!page.next_id.empty()) query.emplace_back("upload-id-marker", page.next_id);
      HttpRequest list = request("GET", "", query);
      list.most_body = kMostPage;
      return list;
    };
    const Answer answer = ask({.what = "listing of uploads"}, make);
    if (answer.response.status != 200) refuse(make, answer.response);
    UploadPage next = parse_answer(make(), answer.response, parse_upload_page);
    if (!next.next_key.empty() && next.next_key == page.next_key && next.next_id == page.next_id)
      throw WrongAnswer(place_of(make()) + ": the pages of the listing repeat");
    page = std::move(next);
    std::move(page.uploads.begin(), page.uploads.end(), std::back_inserter(all));
    limits.check(all.size());
  } while (!page.next_key.empty());
  return all;
}

}  // namespace cairn::inline v0::object

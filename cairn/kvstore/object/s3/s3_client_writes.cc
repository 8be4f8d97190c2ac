// s3_client_writes.cc -- the calls that store objects and remove many.
#include <cairn/kvstore/object/s3/s3_client.h>

#include <cairn/base/errors.h>
#include <cairn/kvstore/object/request/store_error.h>
#include <cairn/kvstore/object/s3/upload_check.h>

#include <algorithm>
#include <chrono>

namespace cairn::inline v0::object {
namespace {

// From this size on the store may refuse an upload before the body is sent.
constexpr std::uint64_t kAsksFirst = std::uint64_t{1} << 20U;
constexpr std::size_t kMostRemoved = 1000;  // by one DeleteObjects

std::uint64_t bytes_of(std::span<const ByteView> parts) {
  std::uint64_t bytes = 0;
  for (const ByteView part : parts) bytes += part.size();
  return bytes;
}

void set_body(HttpRequest& request, std::span<const ByteView> parts) {
  request.body = parts;
  request.expects_continue = bytes_of(parts) >= kAsksFirst;
}

std::string etag_of(const HttpResponse& response) {
  const auto etag = response.headers.find("etag");
  return etag ? std::string(*etag) : std::string();
}

std::string without_quotes(std::string_view etag) {
  if (etag.size() >= 2 && etag.front() == '"' && etag.back() == '"')
    etag = etag.substr(1, etag.size() - 2);
  return std::string(etag);
}

std::string escaped_xml(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '\r' || c == '\n' || c == '\t')
      out += "&#" + std::to_string(static_cast<int>(c)) + ";";
    else
      out += c;
  }
  return out;
}

// XML 1.0 has no control characters, not even escaped ones, and no U+FFFE and U+FFFF.
bool fits_xml(std::string_view key) {
  const bool has_control = std::any_of(key.begin(), key.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 && c != '\r' && c != '\n' && c != '\t';
  });
  return !has_control && key.find("\xef\xbf\xbe") == std::string_view::npos &&
         key.find("\xef\xbf\xbf") == std::string_view::npos;
}

std::string removal_document(std::span<const std::string> keys) {
  std::string xml = "<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Quiet>true</Quiet>";
  for (const std::string& key : keys) xml += "<Object><Key>" + escaped_xml(key) + "</Key></Object>";
  return xml + "</Delete>";
}

std::string completion_document(const std::vector<S3Part>& parts) {
  std::string xml = "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">";
  for (std::size_t i = 0; i < parts.size(); ++i) {
    xml += "<Part><PartNumber>" + std::to_string(i + 1) + "</PartNumber><ETag>" +
           escaped_xml(parts[i].version) + "</ETag>";
    if (!parts[i].checksum.empty())
      xml += "<ChecksumCRC32C>" + parts[i].checksum + "</ChecksumCRC32C>";
    xml += "</Part>";
  }
  return xml + "</CompleteMultipartUpload>";
}

}  // namespace

S3Written S3Client::put(const S3Write& write) {
  for (UploadCheck check = connection_.dialect->check;; check = weaker(check)) {
    bool is_refused = false;
    S3Written written = put_checked(write, check, is_refused);
    if (is_refused) continue;
    connection_.dialect->check = check;
    return written;
  }
}

S3Written S3Client::put_checked(const S3Write& write, UploadCheck check, bool& is_refused) {
  const Make make = [&] {
    HttpRequest put = request("PUT", write.key);
    set_body(put, write.parts);
    put.headers.add("content-type", "application/octet-stream");
    if (write.if_absent) put.headers.add("if-none-match", "*");
    if (!write.if_version.empty()) put.headers.add("if-match", write.if_version);
    if (!write.save_id.empty()) put.headers.add("x-amz-meta-cairn-save", write.save_id);
    add_upload_check(put, write.parts, check);
    return put;
  };
  const RequestFacts facts{.what = "write", .retries_conflict = true};
  Answer answer = ask(facts, make);
  if (says_damaged(answer.response)) answer = ask(facts, make);
  const int status = answer.response.status;
  if (status == 200)
    return {.is_stored = true,
            .was_repeated = answer.was_repeated,
            .version = etag_of(answer.response)};
  const bool is_gone = status == 404 && !write.if_version.empty() &&
                       error_reply_of(answer.response).code == "NoSuchKey";
  if (status == 412 || is_gone) return {.was_repeated = answer.was_repeated, .version = {}};
  is_refused = check != UploadCheck::kNone && refuses_check(answer.response);
  if (is_refused) return {};
  if (says_damaged(answer.response))
    data_loss(place_of(make()) + ": " + status_text(answer.response) +
              ": the bytes arrived damaged twice");
  refuse(make, answer.response);
}

void S3Client::remove_all(std::span<const std::string> keys) {
  std::vector<std::string> batch;
  for (const std::string& key : keys) {
    if (!connection_.dialect->has_batch_delete || !fits_xml(key)) {
      remove(key);
      continue;
    }
    batch.push_back(key);
    if (batch.size() < kMostRemoved) continue;
    remove_batch(batch);
    batch.clear();
  }
  if (!batch.empty()) remove_batch(batch);
}

void S3Client::remove_batch(std::span<const std::string> keys) {
  const std::string xml = removal_document(keys);
  const ByteView body = as_bytes(xml);
  const Make make = [&] {
    HttpRequest post = request("POST", "", {{"delete", ""}});
    post.headers.add("content-type", "application/xml");
    set_body(post, {&body, 1});
    post.most_body = std::uint64_t{4} << 20U;  // an error for each key
    add_upload_check(post, post.body, UploadCheck::kMd5);
    return post;
  };
  const Answer answer = ask({.what = "removal"}, make);
  const int status = answer.response.status;
  if (status == 501 || status == 405) {
    connection_.dialect->has_batch_delete = false;
    for (const std::string& key : keys) remove(key);
    return;
  }
  if (status != 200) refuse(make, answer.response);
  // What failed for another reason than a passing one fails again, with its own error.
  const auto failures = parse_answer(make(), answer.response, parse_delete_result);
  for (const DeleteFailure& failure : failures) remove(failure.key);
}

std::string S3Client::begin_upload(std::string_view key) {
  const bool has_crc = connection_.dialect->check == UploadCheck::kCrc32c;
  const Make make = [&] {
    HttpRequest post = request("POST", key, {{"uploads", ""}});
    post.headers.add("content-type", "application/octet-stream");
    if (has_crc) post.headers.add("x-amz-checksum-algorithm", "CRC32C");
    return post;
  };
  const Answer answer = ask({.what = "start of an upload"}, make);
  if (has_crc && refuses_check(answer.response)) {
    connection_.dialect->check = UploadCheck::kMd5;
    return begin_upload(key);
  }
  if (answer.response.status != 200) refuse(make, answer.response);
  return parse_answer(make(), answer.response, parse_upload_id);
}

S3Part S3Client::put_part(std::string_view key, const std::string& id, std::size_t number,
                          ByteView bytes) {
  const UploadCheck check = connection_.dialect->check;
  const Make make = [&] {
    HttpRequest put =
        request("PUT", key, {{"partNumber", std::to_string(number)}, {"uploadId", id}});
    set_body(put, {&bytes, 1});
    add_upload_check(put, put.body, check);
    return put;
  };
  const RequestFacts facts{.what = "upload of a part"};
  Answer answer = ask(facts, make);
  if (says_damaged(answer.response)) answer = ask(facts, make);
  if (answer.response.status != 200) refuse(make, answer.response);
  S3Part part{.version = etag_of(answer.response), .checksum = {}};
  if (part.version.empty())
    throw WrongAnswer(place_of(make()) + ": the store gave the part no ETag");
  // A store that knows the checksum repeats it; only such a store takes it at the end.
  const auto checksum = answer.response.headers.find("x-amz-checksum-crc32c");
  if (checksum && check == UploadCheck::kCrc32c) part.checksum = *checksum;
  return part;
}

void S3Client::complete(std::string_view key, const std::string& id,
                        const std::vector<S3Part>& parts, std::uint64_t size) {
  const std::string xml = completion_document(parts);
  const ByteView body = as_bytes(xml);
  const Make make = [&] {
    HttpRequest post = request("POST", key, {{"uploadId", id}});
    post.headers.add("content-type", "application/xml");
    post.body = {&body, 1};
    return post;
  };
  // The answer to a try may have been lost; then the store does not know the upload any more.
  const auto send = [&] {
    try {
      return ask({.what = "end of an upload", .ok_may_hold_error = true}, make);
    } catch (const Error& e) {
      if (e.code() != Code::kIo || !is_complete(key, parts.size(), size)) throw;
      return Answer{.response = {.status = 204}};
    }
  };
  const Answer answer = send();
  if (answer.response.status == 204) return;
  if (answer.response.status == 200) {
    const ObjectResult result = parse_answer(make(), answer.response, parse_object_result);
    if (result.error.empty()) return;
  } else if (answer.was_repeated && is_complete(key, parts.size(), size)) {
    return;
  }
  refuse(make, answer.response);
}

// The ETag of an upload ends with the number of its parts.
bool S3Client::is_complete(std::string_view key, std::size_t parts, std::uint64_t size) {
  const auto stored = head(key);
  return stored && stored->size == size &&
         without_quotes(stored->version).ends_with("-" + std::to_string(parts));
}

void S3Client::abort(std::string_view key, const std::string& id) {
  constexpr std::chrono::milliseconds kTryFor{5000};
  const Make make = [&] { return request("DELETE", key, {{"uploadId", id}}); };
  RetryPolicy policy = connection_.policy;
  policy.retry_time = std::min(policy.retry_time, kTryFor);
  Sender sender(connection_.transport, signer_, policy, connection_.limits, connection_.stats);
  const Answer answer = sender.send(make, {.what = "end of an upload"});
  const int status = answer.response.status;
  if (status != 204 && status != 200 && status != 404) refuse(make, answer.response);
}

}  // namespace cairn::inline v0::object

// gcs_client_uploads.cc -- the calls that store an object: in one request, or in pieces.
#include <cairn/kvstore/object/gcs/gcs_client.h>

#include <cairn/base/cancellation.h>
#include <cairn/base/checksum.h>
#include <cairn/base/errors.h>
#include <cairn/base/json/json.h>
#include <cairn/kvstore/object/gcs/gcs_request.h>
#include <cairn/kvstore/object/request/store_error.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <random>
#include <utility>

namespace cairn::inline v0::object {
namespace {

constexpr const char* kBytesType = "application/octet-stream";
constexpr std::size_t kMostSession = std::size_t{8} << 10U;  // bytes of a session's address
// From this size on, the service is asked whether it wants the body before it is sent.
constexpr std::size_t kLargeBody = std::size_t{1} << 20U;

// An upload of metadata and bytes in one request.
struct MultipartText {
  std::string type;           // of the request
  std::string before, after;  // what stands around the bytes

  MultipartText(const std::string& metadata, const std::string& boundary)
      : type("multipart/related; boundary=" + boundary),
        before("--" + boundary + "\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n" +
               metadata + "\r\n--" + boundary + "\r\nContent-Type: " + kBytesType + "\r\n\r\n"),
        after("\r\n--" + boundary + "--\r\n") {}
};

// The service compares the checksum before the object appears.
std::string metadata_text(const GcsPut& put, std::optional<std::uint32_t> crc) {
  Json metadata;
  metadata.set("contentType", kBytesType);
  if (crc) metadata.set("crc32c", crc32c_text(*crc));
  if (!put.save.empty())
    metadata.set("metadata", JsonObject{{std::string(kSaveMetadata), Json(put.save)}});
  return to_text(metadata);
}

// The session's address on our endpoint. Only its path and query count, so that credentials go
// nowhere else.
std::string session_at(const std::string& endpoint, std::string_view location) {
  const std::size_t scheme = location.find("://");
  const std::size_t path = location.find('/', scheme == std::string_view::npos ? 0 : scheme + 3);
  const bool is_visible =
      std::all_of(location.begin(), location.end(), [](char c) { return c > ' ' && c <= '~'; });
  if (path == std::string_view::npos || !is_visible || location.size() > kMostSession)
    throw Error(Code::kIo, "the store's answer names no session for the upload");
  return endpoint + std::string(location.substr(path));
}

// "bytes 0-9/10", "bytes 0-9/*", "bytes */0"
std::string content_range_text(std::uint64_t offset, std::uint64_t length,
                               std::optional<std::uint64_t> total) {
  const std::string part =
      length == 0 ? "*" : std::to_string(offset) + "-" + std::to_string(offset + length - 1);
  return "bytes " + part + "/" + (total ? std::to_string(*total) : "*");
}

GcsUploadState state_of(const HttpRequest& request, const HttpResponse& response) {
  if (is_success(response)) {
    GcsObject object = parse_answer(request, response, parse_gcs_object);
    const std::uint64_t size = object.size;
    return {.stored = size, .object = std::move(object)};
  }
  if (response.status == 404 || response.status == 410) return {.has_ended = true};
  if (response.status != 308) throw error_of_answer(request, response);
  const auto stored = stored_of_range(response.headers.find("range"));
  if (!stored) throw Error(Code::kIo, "the store does not say how much of the upload it has");
  return {.stored = *stored};
}

}  // namespace

std::string random_save_number() {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::random_device device;
  std::string number;
  while (number.size() < 32) number += kDigits[device() & 0xfU];
  return number;
}

std::string GcsClient::upload_url(const GcsPut& put, std::string_view type) const {
  return UrlQuery(endpoint_ + "/upload/storage/v1/b/" + bucket_in_url() + "/o")
      .add("uploadType", type)
      .add("name", put.name)
      .add_number("ifGenerationMatch", put.if_generation)
      .add("fields", kGcsObjectFields)
      .url();
}

// After a conditional write of which an answer was lost: the object that is stored, if it is ours.
std::optional<GcsObject> GcsClient::own_object(const GcsPut& put) const {
  auto object = find(put.name);
  const bool is_own = object && !put.save.empty() && object->save == put.save;
  return is_own ? std::move(object) : std::nullopt;
}

void GcsClient::check_stored(const GcsObject& object, std::uint64_t size, std::uint32_t crc) const {
  if (object.size == size && (!object.crc32c || object.crc32c == crc)) return;
  remove(object.name, object.generation);
  data_loss("the store got other bytes than were sent: " + std::to_string(object.size) +
            " bytes of " + std::to_string(size) + ", or another crc32c");
}

std::optional<GcsObject> GcsClient::put(const GcsPut& put, ByteView value) const {
  const std::uint32_t crc = crc32c(value);
  const MultipartText text(metadata_text(put, crc), random_save_number());
  const std::array<ByteView, 3> body = {as_bytes(text.before), value, as_bytes(text.after)};
  const std::string url = upload_url(put, "multipart");
  const auto make = [&] {
    HttpRequest request{.method = "POST", .url = url, .body = body};
    request.headers.add("Content-Type", text.type);
    request.expects_continue = value.size() >= kLargeBody;
    request.most_body = kMostGcsObjectReply;
    return request;
  };
  const Answer answer = send(make, {.what = "write", .retries_conflict = true});
  if (answer.response.status == 412 && put.if_generation)
    return answer.was_repeated ? own_object(put) : std::nullopt;
  if (answer.response.status == 404) fail_no_bucket();
  if (!is_success(answer.response)) throw error_of_answer(make(), answer.response);
  GcsObject object = parse_answer(make(), answer.response, parse_gcs_object);
  check_stored(object, value.size(), crc);
  return object;
}

std::string GcsClient::begin_upload(const GcsPut& put) const {
  const std::string metadata = metadata_text(put, std::nullopt);
  const std::array<ByteView, 1> body = {as_bytes(metadata)};
  const std::string url = upload_url(put, "resumable");
  const auto make = [&] {
    HttpRequest request{.method = "POST", .url = url, .body = body};
    request.headers.add("Content-Type", "application/json; charset=UTF-8");
    request.headers.add("X-Upload-Content-Type", kBytesType);
    request.most_body = kMostGcsObjectReply;
    return request;
  };
  const Answer answer = send(make, {.what = "write"});
  if (answer.response.status == 404) fail_no_bucket();
  if (!is_success(answer.response)) throw error_of_answer(make(), answer.response);
  return session_at(endpoint_, answer.response.headers.find("location").value_or(""));
}

GcsUploadState GcsClient::upload(const std::string& session, std::uint64_t offset, ByteView bytes,
                                 std::optional<std::uint64_t> total) const {
  const std::array<ByteView, 1> body = {bytes};
  const auto make = [&] {
    HttpRequest request{.method = "PUT", .url = session, .body = body};
    request.headers.add("Content-Range", content_range_text(offset, bytes.size(), total));
    request.expects_continue = bytes.size() >= kLargeBody;
    request.most_body = kMostGcsObjectReply;
    return request;
  };
  return state_of(make(), send(make, {.what = "write", .is_idempotent = false}).response);
}

GcsUploadState GcsClient::upload_state(const std::string& session) const {
  const auto make = [&] {
    HttpRequest request{.method = "PUT", .url = session, .most_body = kMostGcsObjectReply};
    request.headers.add("Content-Range", "bytes */*");
    return request;
  };
  return state_of(make(), send(make, {.what = "look-up"}).response);
}

void GcsClient::abort_upload(const std::string& session) const noexcept {
  constexpr std::chrono::milliseconds kLimit{5000};
  try {
    // Even if the caller's work is cancelled, but not for long.
    const CancellationScope scope(Cancellation({}, kLimit));
    (void)sender_->send(without_body("DELETE", session), {.what = "removal"});
  } catch (const Error&) {  // the service forgets the session after a week
  }
}

}  // namespace cairn::inline v0::object

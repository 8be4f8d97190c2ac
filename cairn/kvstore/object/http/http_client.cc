// http_client.cc -- every answer is checked against what was asked for before its bytes are used.
#include <cairn/kvstore/object/http/http_client.h>

#include <cairn/base/errors.h>
#include <cairn/kvstore/object/http/http_redirect.h>
#include <cairn/kvstore/object/http/http_version.h>
#include <cairn/kvstore/object/object_source.h>
#include <cairn/kvstore/object/request/content_range.h>
#include <cairn/kvstore/object/request/store_error.h>
#include <cairn/kvstore/object/request/store_time.h>
#include <cairn/kvstore/object/request/url.h>

#include <algorithm>
#include <utility>

namespace cairn::inline v0::object {
namespace {

bool is_missing(int status) { return status == 404 || status == 410; }

[[noreturn]] void fail_other_version() {
  throw Error(Code::kUnavailable, "was replaced or removed while Cairn read it; open it again");
}

// Cairn asks for the bytes as they are; a server that compresses them sends other bytes.
void check_not_encoded(const HttpHeaders& headers) {
  const auto encoding = headers.find("Content-Encoding");
  if (encoding && !encoding->empty() && *encoding != "identity")
    throw Error(Code::kUnimplemented, "the server encodes the content (Content-Encoding)");
}

std::optional<ContentRange> content_range_of(const HttpResponse& response) {
  const auto text = response.headers.find("Content-Range");
  return text ? parse_content_range(*text) : std::nullopt;
}

std::optional<std::uint64_t> content_length_of(const HttpResponse& response) {
  const auto text = response.headers.find("Content-Length");
  return text ? parse_size(*text) : std::nullopt;
}

[[noreturn]] void fail_no_ranges(std::uint64_t size) {
  throw Error(Code::kUnimplemented, "the server ignores ranges, so a file of " +
                                        std::to_string(size) + " bytes cannot be read in parts");
}

// A file of a server that ignores ranges is read whole if it is not larger.
constexpr std::uint64_t kMostWholeFile = std::uint64_t{16} << 20U;

// An answer to a request for the first bytes of a file. Returns the size of the file.
std::uint64_t size_of_beginning(const HttpResponse& response) {
  const auto length = content_length_of(response);
  if (response.status != 206) {
    if (length && *length > kMostWholeFile) fail_no_ranges(*length);
    return length.value_or(response.received);
  }
  const auto range = content_range_of(response);
  if (!range || range->first != 0 || range->length == 0)
    throw WrongAnswer("the server sent another part than that which was asked for");
  if (!range->total)
    throw Error(Code::kUnimplemented, "the server does not say how large the file is");
  if (range->length != std::min(*range->total, kKeptBeginning))
    throw WrongAnswer("the server sent another part than that which was asked for");
  return *range->total;
}

// An answer to a request for a part of a file that was opened.
void check_part(const HttpResponse& response, const RangeProgress& asked,
                const StoredValue& value) {
  check_not_encoded(response.headers);
  if (is_other_version(response.headers, value.version)) fail_other_version();
  if (response.status != 206) {
    const std::uint64_t size = content_length_of(response).value_or(asked.length());
    if (size != value.size) fail_other_version();
    if (asked.length() != value.size) fail_no_ranges(size);
    return;
  }
  const auto range = content_range_of(response);
  if (range && range->total && *range->total != value.size) fail_other_version();
  if (!range || range->first != asked.offset() || range->length != asked.length())
    throw WrongAnswer("the server sent another part than that which was asked for");
}

// Web servers answer so at the name of a folder, and show a page for people there.
bool adds_only_slash(std::string_view url, std::string_view target) {
  return target.size() == url.size() + 1 && target.starts_with(url) && target.ends_with('/');
}

}  // namespace

HttpClient::HttpClient(const HttpConnection& connection)
    : sender_(connection.transport, nullptr, connection.policy, connection.limits,
              connection.stats),
      headers_(connection.headers) {}

HttpClient::Exchange HttpClient::send(const char* method, std::string url, const Prepare& prepare) {
  const std::string origin(origin_of(url));
  for (int redirects = 0;; ++redirects) {
    const auto make = [&] {
      HttpRequest request{.method = method, .url = url};
      // They may hold a secret, which is for this host alone.
      if (origin_of(url) == origin) request.headers = headers_;
      prepare(request);
      return request;
    };
    Answer answer = sender_.send(make, {.what = "read"});
    HttpRequest request{.method = method, .url = url};
    if (!is_redirect(answer.response.status))
      return {std::move(request), std::move(answer.response)};
    if (redirects == kMostRedirects)
      throw Error(Code::kIo, place_of(request) + ": more than five redirects");
    const auto location = answer.response.headers.find("Location");
    auto target = location ? resolve_location(url, *location) : std::nullopt;
    if (!target) throw Error(Code::kIo, place_of(request) + ": the redirect leads nowhere");
    with_context([&] { return place_of(request); }, [&] { check_redirect(url, *target); });
    if (adds_only_slash(url, *target)) return {std::move(request), HttpResponse{.status = 404}};
    url = *std::move(target);
  }
}

std::optional<HttpFile> HttpClient::open(const std::string& url, const std::string& version) {
  const auto check = [&](const HttpResponse& header) {
    check_not_encoded(header.headers);
    if (is_other_version(header.headers, version)) fail_other_version();
    (void)size_of_beginning(header);
  };
  Exchange exchange = send("GET", url, [&](HttpRequest& request) {
    request.headers.add("Range", "bytes=0-" + std::to_string(kKeptBeginning - 1));
    add_version_condition(request.headers, version);
    request.most_body = kMostWholeFile;
    request.check_header = check;
  });
  HttpResponse& response = exchange.response;
  if (is_missing(response.status)) return std::nullopt;
  if (response.status == 412) fail_other_version();
  const auto range = content_range_of(response);
  // An empty file has no first byte.
  const bool is_empty = response.status == 416 && (!range || range->total == 0U);
  if (!is_empty && response.status != 200 && response.status != 206)
    throw error_of_answer(exchange.request, response);
  if (is_empty) response.body.clear();
  if (!is_empty) check(response);
  HttpFile file;
  file.value.size = is_empty ? 0 : size_of_beginning(response);
  file.value.version = http_version_of(response.headers);
  if (const auto changed = response.headers.find("Last-Modified"))
    file.value.modified_ns = ns_of_http_date(*changed);
  file.beginning = std::move(response.body);
  const bool is_part = response.status == 206;
  if (file.beginning.size() !=
      (is_part ? std::min(file.value.size, kKeptBeginning) : file.value.size))
    throw WrongAnswer("the body has another length than the server said");
  return file;
}

void HttpClient::read(const std::string& url, const StoredValue& value, std::uint64_t offset,
                      std::span<const MutableByteView> parts) {
  RangeProgress progress(offset, parts);
  const Exchange exchange = send("GET", url, [&](HttpRequest& request) {
    progress.prepare(request);
    add_version_condition(request.headers, value.version);
    request.check_header = [&](const HttpResponse& header) { check_part(header, progress, value); };
  });
  const int status = exchange.response.status;
  if (is_missing(status) || status == 412 || status == 416) fail_other_version();
  if (status != 200 && status != 206) throw error_of_answer(exchange.request, exchange.response);
  check_part(exchange.response, progress, value);
}

std::optional<std::uint64_t> HttpClient::size(const std::string& url) {
  const Exchange exchange = send("HEAD", url, [](HttpRequest&) {});
  const HttpResponse& response = exchange.response;
  if (is_missing(response.status)) return std::nullopt;
  const auto length = response.status == 200 ? content_length_of(response) : std::nullopt;
  if (length && !response.headers.find("Content-Encoding")) return length;
  // Not every server answers HEAD, or with a length.
  const auto file = open(url, "");
  return file ? std::optional(file->value.size) : std::nullopt;
}

}  // namespace cairn::inline v0::object

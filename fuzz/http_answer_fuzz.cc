// http_answer_fuzz.cc -- feeds any bytes as the lines and the body of an answer, in pieces. Nothing
// may be placed beyond its buffer or kept beyond the limits. Also parses the values of headers that
// a client of a web server acts on.
#include <cairn/error.h>
#include <cairn/kvstore/object/http/http_redirect.h>
#include <cairn/kvstore/object/http/http_version.h>
#include <cairn/kvstore/object/request/content_range.h>
#include <cairn/kvstore/object/transport/answer_reader.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace cairn;
using namespace cairn::object;

constexpr std::uint64_t kMostBody = 100;

// Lines up to an empty one that follows a status, then the body.
void feed(AnswerReader& reader, std::string_view text) {
  while (!text.empty() && !reader.has_header()) {
    const std::size_t length = std::min(text.find('\n'), text.size() - 1) + 1;
    if (!reader.take_header(text.substr(0, length))) return;
    text.remove_prefix(length);
  }
  while (!text.empty()) {
    const std::size_t length = std::min<std::size_t>(text.size(), 7);
    if (!reader.take_body(as_bytes(text.substr(0, length)))) return;
    text.remove_prefix(length);
  }
}

void check_location(std::string_view location) {
  for (const char* base : {"https://h:8/a/b?q", "http://h"}) {
    const auto url = resolve_location(base, location);
    if (url && !url->starts_with("http://") && !url->starts_with("https://")) std::abort();
    if (url && url->find_first_of(std::string_view("\r\n \0", 4)) != url->npos) std::abort();
  }
}

void check_headers(const HttpHeaders& headers) {
  const std::string version = http_version_of(headers);
  if (is_other_version(headers, version)) std::abort();
  HttpHeaders condition;
  add_version_condition(condition, version);
  for (const auto& [name, value] : headers.fields()) {
    if (name.empty() || value.find_first_of(std::string_view("\r\n\0", 3)) != value.npos)
      std::abort();
    const auto range = parse_content_range(value);
    if (range && range->length != 0 && range->total && range->first + range->length > *range->total)
      std::abort();
    check_location(value);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check_location(text);
  for (const bool places : {false, true}) {
    HttpRequest request{.method = "GET", .url = "http://h/x", .most_body = kMostBody};
    request.headers.add("Range", "bytes=0-9");
    std::vector<std::byte> out(10);  // on the heap, where AddressSanitizer sees its end
    const std::vector<MutableByteView> parts = {
        MutableByteView(out).first(3), MutableByteView(static_cast<std::byte*>(nullptr), 4),
        MutableByteView(out).subspan(3)};
    if (places) request.into = parts;
    AnswerReader reader(request);
    feed(reader, text);
    const HttpResponse response = reader.take_response();
    if (response.body.size() > std::max<std::uint64_t>(kMostBody, kMostKeptOfError)) std::abort();
    check_headers(response.headers);
  }
  return 0;
}

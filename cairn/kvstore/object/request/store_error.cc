// store_error.cc -- errors of stores.
#include <cairn/kvstore/object/request/store_error.h>

#include <cairn/base/json/json.h>
#include <cairn/kvstore/object/request/xml.h>

#include <algorithm>
#include <utility>

namespace cairn::inline v0::object {
namespace {

// Errors are short. What a proxy sends instead, a page of HTML, is not read.
constexpr std::size_t kMostErrorBody = std::size_t{64} << 10U;

// The text, if it is one word of a kind that codes and request ids are; else "".
std::string plain_word(std::string_view text) {
  constexpr std::size_t kLongest = 128;
  const bool is_plain = std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-_.:=+/").find(c) != std::string_view::npos;
  });
  return is_plain && text.size() <= kLongest ? std::string(text) : std::string();
}

void read_xml_error(std::string_view body, ErrorReply& reply) {
  const XmlElement root = parse_xml(body, {.max_elements = 1000});
  const XmlElement* error = root.name == "Error" ? &root : root.find("Error");
  if (error == nullptr) return;
  reply.code = plain_word(error->text_of("Code"));
  reply.request_id = plain_word(error->text_of("RequestId"));
  reply.region = plain_word(error->text_of("Region"));
}

// {"error": {"code": 404, "errors": [{"reason": "notFound"}]}}, or {"error": "invalid_grant"}.
void read_json_error(std::string_view body, ErrorReply& reply) {
  const Json json = parse_json(body, {.max_depth = 16});
  const Json* error = json.find("error");
  if (error == nullptr) return;
  if (const std::string* text = error->as_string()) reply.code = plain_word(*text);
  const Json* list = error->find("errors");
  const JsonArray* errors = list == nullptr ? nullptr : list->as_array();
  if (errors == nullptr || errors->empty()) return;
  const Json* reason = errors->front().find("reason");
  if (reason != nullptr && reason->as_string() != nullptr)
    reply.code = plain_word(*reason->as_string());
}

// What the reader can do about a refusal; "" if the code says it all.
std::string_view advice_for(std::string_view code) {
  constexpr std::pair<std::string_view, std::string_view> kAdvice[] = {
      {"SignatureDoesNotMatch", "the secret key is wrong"},
      {"InvalidAccessKeyId", "the store does not know the access key"},
      {"AccessDenied", "the credentials do not allow it, or none were given"},
      {"ExpiredToken", "the session token has expired"},
      {"RequestTimeTooSkewed", "this machine's clock and the store's differ too much"},
      {"InvalidToken", "the session token is wrong"}};
  for (const auto& [known, advice] : kAdvice)
    if (known == code) return advice;
  return {};
}

std::string refusal_text(const HttpRequest& request, const HttpResponse& response,
                         const ErrorReply& reply) {
  if (const std::string_view advice = advice_for(reply.code); !advice.empty())
    return ": " + std::string(advice);
  if (response.status == 401) return ": the credentials are wrong or have expired";
  if (request.method == "HEAD" || (request.method == "GET" && reply.code.empty()))
    return ": the credentials do not allow it or are wrong, or the object does not exist and the "
           "credentials do not allow to list the bucket";
  return {};
}

bool names_other_region(const HttpResponse& response, const ErrorReply& reply) {
  return !reply.region.empty() && (response.status == 301 || response.status == 307 ||
                                   reply.code == "AuthorizationHeaderMalformed" ||
                                   (response.status == 400 && reply.code.empty()));
}

std::pair<Code, std::string> meaning_of(const HttpRequest& request, const HttpResponse& response,
                                        const ErrorReply& reply) {
  if (names_other_region(response, reply))
    return {Code::kInvalidArgument, ": the bucket is in region " + reply.region};
  switch (response.status) {
    case 404:
      return {Code::kNotFound,
              reply.code == "NoSuchBucket" ? ": no such bucket" : ": no such object"};
    case 401:
    case 403:
      return {Code::kIo, refusal_text(request, response, reply)};
    case 412:
      return {Code::kFailedPrecondition, ": another version is stored"};
    case 416:
      return {Code::kOutOfRange, ": the range lies outside the object"};
    case 501:
      return {Code::kUnimplemented, ": the store cannot do this"};
    default:
      return {Code::kIo, refusal_text({}, response, reply)};
  }
}

}  // namespace

ErrorReply error_reply_of(const HttpResponse& response) {
  ErrorReply reply;
  const std::string_view body = as_text(response.body);
  if (body.size() <= kMostErrorBody) {
    try {
      if (body.starts_with('<')) read_xml_error(body, reply);
      if (body.starts_with('{')) read_json_error(body, reply);
    } catch (const Error&) {  // the status says enough
    }
  }
  for (const char* name : {"x-amz-request-id", "x-guploader-uploadid"})
    if (const auto id = response.headers.find(name)) reply.request_id = plain_word(*id);
  if (const auto region = response.headers.find("x-amz-bucket-region"))
    reply.region = plain_word(*region);
  return reply;
}

std::string place_of(const HttpRequest& request) {
  std::string url = request.url.substr(0, request.url.find_first_of("?#"));
  const std::size_t authority = url.find("://");
  if (authority != std::string::npos) {
    const std::size_t begin = authority + 3;
    const std::size_t user = url.substr(0, url.find('/', begin)).rfind('@');
    if (user != std::string::npos && user >= begin) url.erase(begin, user + 1 - begin);
  }
  return request.method + " " + url;
}

std::string status_text(const HttpResponse& response) {
  const ErrorReply reply = error_reply_of(response);
  std::string text = std::to_string(response.status);
  if (!reply.code.empty()) text += " " + reply.code;
  if (!reply.request_id.empty()) text += ", request id " + reply.request_id;
  return text;
}

Error error_of_answer(const HttpRequest& request, const HttpResponse& response) {
  const auto [code, meaning] = meaning_of(request, response, error_reply_of(response));
  return {code, place_of(request) + ": " + status_text(response) + meaning};
}

}  // namespace cairn::inline v0::object

// store_error.h -- turns the answer of a store into a cairn::Error. The only place that does.
#pragma once

#include <cairn/bytes.h>
#include <cairn/error.h>
#include <cairn/kvstore/object/transport/http.h>

#include <string>
#include <utility>

namespace cairn::inline v0::object {

// What a store says about a failed request. Every member may be "". `code` and `request_id` hold
// only characters that such values have, so they can stand in a message.
struct ErrorReply {
  std::string code;        // "NoSuchKey"; gs: the reason: "notFound"
  std::string request_id;  // of the headers, else of the body
  std::string region;      // s3: of x-amz-bucket-region, else <Region>
};

// An answer that is not what was asked for: io. It says nothing of what is stored: the fault is the
// store's, or that of a server between, such as a proxy that answers with a page of its own.
class WrongAnswer : public Error {
 public:
  explicit WrongAnswer(std::string message) : Error(Code::kIo, std::move(message)) {}
};

// Reads the body, XML of S3 or JSON of Google, as far as it can be understood.
ErrorReply error_reply_of(const HttpResponse& response);

// "GET http://host/bucket/key": without the query and without a user in the authority.
std::string place_of(const HttpRequest& request);
// "503 SlowDown, request id 4F2A": for messages.
std::string status_text(const HttpResponse& response);

// Returns parse(text of the body). Throws WrongAnswer with the request if the body is malformed.
template <class Parse>
auto parse_answer(const HttpRequest& request, const HttpResponse& response, Parse parse) {
  try {
    return parse(as_text(response.body));
  } catch (const Error& e) {
    if (e.code() != Code::kDataLoss) throw;
    throw WrongAnswer(place_of(request) + ": " + e.message());
  }
}

// The error for an answer that the caller cannot use:
//   404              not_found
//   401, 403         io, and what the code means
//   412              failed_precondition
//   416              out_of_range
//   501              unimplemented
//   another region   invalid_argument, with its name
//   all others       io
// Callers that know more answer otherwise, before they ask for this: 412 on a pinned read is
// unavailable.
Error error_of_answer(const HttpRequest& request, const HttpResponse& response);

}  // namespace cairn::inline v0::object

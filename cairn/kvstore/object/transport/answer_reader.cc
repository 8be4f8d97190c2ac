// answer_reader.cc -- reads the lines of a header, and places or keeps the bytes of the body.
#include <cairn/kvstore/object/transport/answer_reader.h>

#include <cairn/base/text.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

namespace cairn::inline v0::object {
namespace {

// "token" of RFC 9110, without most of its punctuation marks, which no field name has.
constexpr std::string_view kNameCharacters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";

std::string_view without_spaces(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

bool has_control_characters(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == '\x7f';
  });
}

// A number of at most 19 digits, so that it cannot overflow.
std::optional<std::uint64_t> length_of(std::string_view text) {
  if (!consists_of(text, kDecimalDigits) || text.size() > 19) return std::nullopt;
  std::uint64_t length = 0;
  std::from_chars(text.data(), text.data() + text.size(), length);
  return length;
}

}  // namespace

AnswerReader::AnswerReader(const HttpRequest& request) : request_(request) {
  for (const MutableByteView part : request.into) room_ += part.size();
  if (request.filled != nullptr) *request.filled = 0;
}

bool AnswerReader::fail(std::string why) {
  if (fault_.empty()) fault_ = std::move(why);
  is_final_ = true;
  return false;
}

bool AnswerReader::take_header(std::string_view line) {
  header_bytes_ += line.size();
  if (header_bytes_ > kMostAnswerHeader)
    return fail("the header of the answer is longer than 64 KiB");
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.remove_suffix(1);
  if (has_header_) return true;  // a trailer
  if (line.starts_with("HTTP/")) return begin_header(line);
  return line.empty() ? end_header() : add_field(line);
}

// "HTTP/1.1 206 Partial Content"
bool AnswerReader::begin_header(std::string_view line) {
  response_.headers = {};
  const std::size_t space = line.find(' ');
  const std::string_view status = space < line.size() ? line.substr(space + 1, 3) : "";
  if (status.size() != 3 || !consists_of(status, kDecimalDigits) || status[0] == '0')
    return fail("the answer has no status");
  response_.status = (status[0] - '0') * 100 + (status[1] - '0') * 10 + (status[2] - '0');
  return true;
}

bool AnswerReader::add_field(std::string_view line) {
  const std::size_t colon = line.find(':');
  const std::string_view name = line.substr(0, colon);
  if (colon == std::string_view::npos || !consists_of(name, kNameCharacters))
    return fail("the answer has a malformed header");
  const std::string_view value = without_spaces(line.substr(colon + 1));
  if (has_control_characters(value))
    return fail("the header " + std::string(name) + " of the answer has control characters");
  response_.headers.add(std::string(name), std::string(value));
  return true;
}

bool AnswerReader::end_header() {
  if (response_.status == 0) return fail("the answer has no status");
  if (response_.status < 200) return true;  // an interim answer
  has_header_ = true;
  if (!is_accepted()) return fail("the answer is refused");
  const auto length = response_.headers.find("Content-Length");
  const bool has_body = request_.method != "HEAD" && response_.status != 204;
  if (!length || !has_body || response_.headers.find("Transfer-Encoding")) return true;
  const auto bytes = length_of(*length);
  return bytes ? check_length(*bytes) : fail("the answer has a malformed Content-Length");
}

// An exception must not pass the frames of the library that calls the reader.
bool AnswerReader::is_accepted() {
  if (!is_success() || !request_.check_header) return true;
  try {
    request_.check_header(response_);
  } catch (...) {
    refusal_ = std::current_exception();
  }
  return refusal_ == nullptr;
}

// Refuses a body of the wrong length before its first byte.
bool AnswerReader::check_length(std::uint64_t length) {
  if (!is_success()) return true;
  const bool fits = request_.into.empty() ? length <= request_.most_body : length == room_;
  return fits || fail(unexpected_length(length));
}

std::string AnswerReader::unexpected_length(std::uint64_t length) const {
  const std::string bytes = std::to_string(length) + " bytes";
  if (response_.status == 200 && request_.headers.find("Range"))
    return "the server ignores ranges: it answers with " + bytes;
  return "the answer has " + bytes + ", " +
         (request_.into.empty() ? "more than the " + std::to_string(request_.most_body) + " allowed"
                                : "expected " + std::to_string(room_));
}

bool AnswerReader::take_body(ByteView bytes) {
  if (!has_header_) return fail("the answer has no header");
  if (goes_into_parts()) return place(bytes);
  return keep(bytes);
}

bool AnswerReader::place(ByteView bytes) {
  if (bytes.size() > room_ - response_.received)
    return fail(unexpected_length(response_.received + bytes.size()));
  response_.received += bytes.size();
  while (!bytes.empty()) {
    const MutableByteView part = request_.into[part_];
    const std::size_t count = std::min(bytes.size(), part.size() - part_offset_);
    if (count != 0 && part.data() != nullptr)
      std::memcpy(part.data() + part_offset_, bytes.data(), count);
    bytes = bytes.subspan(count);
    part_offset_ += count;
    if (part_offset_ == part.size()) {
      ++part_;
      part_offset_ = 0;
    }
  }
  if (request_.filled != nullptr) *request_.filled = response_.received;
  return true;
}

bool AnswerReader::keep(ByteView bytes) {
  const std::uint64_t most = is_success() ? request_.most_body : kMostKeptOfError;
  const std::uint64_t room = most - response_.body.size();
  response_.received += bytes.size();
  if (bytes.size() > room && is_success()) return fail(unexpected_length(response_.received));
  has_enough_ = bytes.size() > room;
  const ByteView kept = bytes.first(std::min<std::uint64_t>(bytes.size(), room));
  response_.body.insert(response_.body.end(), kept.begin(), kept.end());
  return !has_enough_;
}

HttpResponse AnswerReader::take_response() {
  if (!has_header_)
    fail("the answer has no header");
  else if (goes_into_parts() && response_.received != room_)
    fault_ = unexpected_length(response_.received);
  return std::move(response_);
}

}  // namespace cairn::inline v0::object

// curl_exchange.cc -- sets the options of a handle, runs it, and turns its result into an answer or
// a TransportError.
#include <cairn/kvstore/object/transport/curl_exchange.h>

#include <cairn/base/cancellation.h>
#include <cairn/base/errors.h>
#include <cairn/base/text.h>

#include <algorithm>
#include <csignal>
#include <cstring>

namespace cairn::inline v0::object {
namespace {

// OpenSSL writes to its socket with write(), which sends SIGPIPE if the peer has gone. This blocks
// the signal on this thread, and takes back what came meanwhile.
class WithoutSigpipe {
 public:
  WithoutSigpipe() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    was_pending_ = is_pending();
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  WithoutSigpipe(const WithoutSigpipe&) = delete;
  WithoutSigpipe& operator=(const WithoutSigpipe&) = delete;
  ~WithoutSigpipe() {
    const timespec now{};
    if (!was_pending_ && is_pending()) sigtimedwait(&pipe_, nullptr, &now);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  static bool is_pending() {
    sigset_t pending;
    sigemptyset(&pending);
    sigpending(&pending);
    return sigismember(&pending, SIGPIPE) == 1;
  }

  sigset_t pipe_{};
  sigset_t before_{};
  bool was_pending_ = false;
};

bool has_line_breaks(std::string_view text) {
  return text.find_first_of(std::string_view("\r\n\0", 3)) != std::string_view::npos;
}

void check_url(std::string_view url) {
  const bool has_scheme = url.starts_with("http://") || url.starts_with("https://");
  const bool is_visible = std::all_of(url.begin(), url.end(), [](char c) {
    return static_cast<unsigned char>(c) > 0x20 && static_cast<unsigned char>(c) < 0x7f;
  });
  if (!has_scheme || !is_visible)
    invalid_argument("a request needs an http:// or https:// URL that is percent-encoded");
}

// Metadata services of cloud machines answer at link-local addresses. A proxy would give the keys
// of its own machine.
bool is_link_local(std::string_view url) {
  return url.starts_with("http://169.254.") || url.starts_with("http://[fd00:ec2::");
}

// libcurl's defaults for one call of the system. Larger ones take a quarter of the processor time
// from the exchange of a large body.
constexpr std::uint64_t kLeastReceive = std::uint64_t{16} << 10U;
constexpr std::uint64_t kLeastSend = std::uint64_t{64} << 10U;

// The size of a buffer for a body of so many bytes. libcurl allocates it for each exchange.
long buffer_size(std::uint64_t least, std::uint64_t body) {
  constexpr std::uint64_t kMost = std::uint64_t{512} << 10U;
  return static_cast<long>(std::clamp(body, least, kMost));
}

// TLS and the request itself: another try ends in the same way.
bool is_final_code(int code) {
  switch (static_cast<CurlCode>(code)) {
    case CurlCode::kUnsupportedProtocol:
    case CurlCode::kUrlMalformat:
    case CurlCode::kSslCertproblem:
    case CurlCode::kSslCipher:
    case CurlCode::kPeerFailedVerification:
    case CurlCode::kSslCacertBadfile:
    case CurlCode::kSslIssuerError:
      return true;
    default:
      return false;
  }
}

}  // namespace

CurlExchange::CurlExchange(CurlHandle* handle, const HttpRequest& request, const HttpLimits& limits,
                           const CurlSettings& settings)
    : api_(curl_api()), handle_(handle), request_(request), limits_(limits), reader_(request) {
  check_url(request.url);
  for (const ByteView part : request.body) body_size_ += part.size();
  set_defaults(settings);
  set_method();
  set_headers();
  set_receive_buffer();
  set_callbacks();
}

template <class Value>
void CurlExchange::set(CurlOption option, Value value) {
  const int code = api_.easy_setopt(handle_, static_cast<int>(option), value);
  if (code != 0)
    throw Error(Code::kUnimplemented, "libcurl refuses option " +
                                          std::to_string(static_cast<int>(option)) + ": " +
                                          api_.easy_strerror(code));
}

void CurlExchange::set_defaults(const CurlSettings& settings) {
  set(CurlOption::kUrl, request_.url.c_str());
  set(CurlOption::kUseragent, "cairn/" CAIRN_VERSION);
  set(CurlOption::kNosignal, 1L);
  set(CurlOption::kPathAsIs, 1L);
  set(CurlOption::kHttpVersion, kCurlHttp11);
  set(CurlOption::kFollowlocation, 0L);
  set(CurlOption::kProtocols, kCurlProtocols);
  set(CurlOption::kTcpNodelay, 1L);
  set(CurlOption::kSuppressConnectHeaders, 1L);
  set(CurlOption::kConnecttimeoutMs, static_cast<long>(limits_.connect_timeout.count()));
  if (is_link_local(request_.url)) set(CurlOption::kNoproxy, "*");
  if (!settings.ca_file.empty()) set(CurlOption::kCainfo, settings.ca_file.c_str());
  if (settings.verify_tls) return;
  set(CurlOption::kSslVerifypeer, 0L);
  set(CurlOption::kSslVerifyhost, 0L);
}

void CurlExchange::set_method() {
  const std::string& method = request_.method;
  if (method == "HEAD") {
    set(CurlOption::kNobody, 1L);
    return;
  }
  if (method == "PUT" || method == "POST" || body_size_ != 0)
    set_body();
  else
    set(CurlOption::kHttpget, 1L);
  set(CurlOption::kCustomrequest, method.c_str());
}

// If an open connection turns out to be dead, libcurl sends the request once more without a word,
// though the server may have acted on it. It cannot do so with a body that it cannot rewind, and
// not on a new connection.
void CurlExchange::set_body() {
  set(CurlOption::kUpload, 1L);
  set(CurlOption::kUploadBuffersize, buffer_size(kLeastSend, body_size_));
  set(CurlOption::kInfilesizeLarge, static_cast<std::int64_t>(body_size_));
  if (body_size_ == 0) set(CurlOption::kFreshConnect, 1L);
  set(CurlOption::kReaddata, static_cast<void*>(this));
  set(
      CurlOption::kReadfunction, +[](char* out, std::size_t size, std::size_t count, void* self) {
        return static_cast<CurlExchange*>(self)->send_body(reinterpret_cast<std::byte*>(out),
                                                           size * count);
      });
}

void CurlExchange::add_line(const std::string& line) {
  CurlList* const longer = api_.list_append(headers_.get(), line.c_str());
  if (longer == nullptr) throw Error(Code::kUnavailable, "libcurl has no memory");
  static_cast<void>(headers_.release());  // the list is the same, or begins there
  headers_.reset(longer);
}

// Of a large body, each call of the system takes more than the 16 KiB of libcurl's default.
void CurlExchange::set_receive_buffer() {
  std::uint64_t expected = request_.into.empty() ? request_.most_body : 0;
  for (const MutableByteView part : request_.into) expected += part.size();
  set(CurlOption::kBuffersize, buffer_size(kLeastReceive, expected));
}

void CurlExchange::set_headers() {
  for (const auto& [name, value] : request_.headers.fields()) {
    if (has_line_breaks(name) || has_line_breaks(value))
      invalid_argument("a request header has a line break");  // its text may be a secret
    // libcurl takes "Name:" for the wish to leave the field out.
    add_line(value.empty() ? name + ";" : name + ": " + value);
  }
  if (!request_.headers.find("Accept-Encoding")) add_line("Accept-Encoding: identity");
  // libcurl would wait a second for the word of a server that does not know it.
  add_line(request_.expects_continue ? "Expect: 100-continue" : "Expect:");
  set(CurlOption::kHttpheader, headers_.get());
}

void CurlExchange::set_callbacks() {
  void* const self = this;
  set(CurlOption::kErrorbuffer, error_text_.data());
  set(CurlOption::kHeaderdata, self);
  set(
      CurlOption::kHeaderfunction, +[](char* line, std::size_t size, std::size_t count, void* to) {
        auto* exchange = static_cast<CurlExchange*>(to);
        exchange->note_progress();
        return exchange->reader_.take_header({line, size * count}) ? size * count : 0;
      });
  set(CurlOption::kWritedata, self);
  set(
      CurlOption::kWritefunction, +[](char* data, std::size_t size, std::size_t count, void* to) {
        auto* exchange = static_cast<CurlExchange*>(to);
        exchange->note_progress();
        return exchange->reader_.take_body(as_bytes({data, size * count})) ? size * count : 0;
      });
  set(CurlOption::kNoprogress, 0L);
  set(CurlOption::kXferinfodata, self);
  set(
      CurlOption::kXferinfofunction,
      +[](void* to, std::int64_t, std::int64_t received, std::int64_t, std::int64_t sent) {
        return static_cast<CurlExchange*>(to)->must_stop(received, sent) ? 1 : 0;
      });
}

std::size_t CurlExchange::send_body(std::byte* out, std::size_t size) {
  std::size_t filled = 0;
  while (filled < size && part_ < request_.body.size()) {
    const ByteView rest = request_.body[part_].subspan(part_offset_);
    const std::size_t count = std::min(rest.size(), size - filled);
    if (count != 0) std::memcpy(out + filled, rest.data(), count);
    filled += count;
    part_offset_ += count;
    if (part_offset_ < request_.body[part_].size()) break;
    ++part_;
    part_offset_ = 0;
  }
  return filled;
}

// An exception must not pass libcurl's frames.
bool CurlExchange::must_stop(std::int64_t received, std::int64_t sent) {
  try {
    throw_if_cancelled();
  } catch (...) {
    stopped_ = std::current_exception();
    return true;
  }
  if (sent != sent_) {
    sent_ = sent;
    note_progress();
  }
  const auto now = std::chrono::steady_clock::now();
  has_stalled_ = now - last_progress_ > limits_.stall_timeout;
  drips_ = drips_ || is_dripping(received, now);
  return has_stalled_ || drips_;
}

// A server that sends a byte now and then would hold a reader for ever. Other requests may take
// their time: a store sends blanks while it puts the parts of an upload together.
bool CurlExchange::is_dripping(std::int64_t received, std::chrono::steady_clock::time_point now) {
  const std::chrono::milliseconds time = 2 * limits_.stall_timeout;
  if (request_.method != "GET" || now - window_begin_ < time) return false;
  const std::int64_t least = kLeastBytesASecond * time.count() / 1000;
  const bool is_slow = received - window_received_ < least;
  window_begin_ = now;
  window_received_ = received;
  return is_slow;
}

std::variant<HttpResponse, TransportError> CurlExchange::perform() {
  throw_if_cancelled();
  note_progress();
  window_begin_ = last_progress_;
  int code = 0;
  {
    const WithoutSigpipe without_sigpipe;
    code = api_.easy_perform(handle_);
  }
  if (stopped_) std::rethrow_exception(stopped_);
  if (reader_.refusal()) std::rethrow_exception(reader_.refusal());
  return outcome(code);
}

std::variant<HttpResponse, TransportError> CurlExchange::outcome(int code) {
  if (code != 0 && !reader_.has_enough()) return error_of(code);
  HttpResponse response = reader_.take_response();
  if (!reader_.fault().empty()) return error_of(code);
  return response;
}

TransportError CurlExchange::error_of(int code) const {
  // The time when the first byte of the request was about to be sent; 0 if it did not get there.
  std::int64_t sending = 0;
  api_.easy_getinfo(handle_, kCurlPretransferTime, &sending);
  TransportError error;
  if (reader_.has_header())
    error.delivery = Delivery::kAnswered;
  else if (sending != 0)
    error.delivery = Delivery::kMaybeSent;
  error.is_timeout =
      has_stalled_ || drips_ || code == static_cast<int>(CurlCode::kOperationTimedout);
  error.is_final = reader_.is_final() || is_final_code(code);
  error.received = reader_.placed();
  error.why = reason(code);
  return error;
}

std::string CurlExchange::reason(int code) const {
  if (!reader_.fault().empty()) return reader_.fault();
  if (has_stalled_) return "no byte for " + std::to_string(limits_.stall_timeout.count()) + " ms";
  if (drips_)
    return "fewer than " + std::to_string(kLeastBytesASecond) + " bytes a second for " +
           std::to_string(2 * limits_.stall_timeout.count()) + " ms";
  std::string why = error_text_[0] != '\0' ? error_text_.data() : api_.easy_strerror(code);
  if (code == static_cast<int>(CurlCode::kPeerFailedVerification) ||
      code == static_cast<int>(CurlCode::kSslCacertBadfile))
    why += " (trusted certificates: Debian package ca-certificates, or StoreOptions::ca_file)";
  return why;
}

}  // namespace cairn::inline v0::object

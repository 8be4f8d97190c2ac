#include <cairn/kvstore/object/credentials/gcs_token.h>

#include <cairn/base/errors.h>
#include <cairn/base/json/json.h>
#include <cairn/base/visible_text.h>
#include <cairn/kvstore/object/credentials/bearer.h>
#include <cairn/kvstore/object/request/percent.h>
#include <cairn/kvstore/object/request/store_error.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <mutex>
#include <utility>

namespace cairn::inline v0::object {
namespace {

constexpr JsonLimits kFileLimits = {.max_depth = 16, .max_bytes = std::size_t{1} << 20U};
constexpr JsonLimits kReplyLimits = {.max_depth = 16, .max_bytes = std::size_t{64} << 10U};
constexpr std::int64_t kJwtLasts = 3600;  // seconds; the service accepts no longer ones
// A token is fetched again this long before it expires, so that a request takes a valid one.
constexpr std::int64_t kRefreshedBefore = 225;  // seconds
constexpr const char* kScope = "https://www.googleapis.com/auth/devstorage.read_write";
constexpr const char* kTokenUrl = "https://oauth2.googleapis.com/token";

// The member, "" if it is missing or not a string.
std::string member(const Json& json, std::string_view name) {
  const Json* value = json.find(name);
  const std::string* text = value == nullptr ? nullptr : value->as_string();
  return text == nullptr ? "" : *text;
}

std::string needed(const Json& json, std::string_view name) {
  std::string value = member(json, name);
  if (value.empty()) invalid_argument("the credentials have no \"" + std::string(name) + "\"");
  return value;
}

// Secrets must not leave in clear text, but for tests on this machine.
void check_token_url(std::string_view url) {
  const bool is_local =
      url.starts_with("http://127.0.0.1:") || url.starts_with("http://localhost:");
  const bool is_visible =
      std::all_of(url.begin(), url.end(), [](char c) { return c > ' ' && c <= '~'; });
  if (!is_visible || !(url.starts_with("https://") || is_local))
    invalid_argument("\"token_uri\" of the credentials does not begin with https://");
}

Json parse_credentials_json(std::string_view json) {
  try {
    return parse_json(without_byte_order_mark(json), kFileLimits);
  } catch (const Error&) {  // its message could show some of the file
    invalid_argument("the credentials are not valid JSON");
  }
}

using TokenRequest = std::function<HttpRequest()>;

// Asks a service for a token. The request must be one that this function's caller keeps alive.
TokenReply request_token(Sender& sender, const TokenRequest& make) {
  const Answer answer = sender.send(make, {.what = "request for a token"});
  if (answer.response.status != 200) throw error_of_answer(make(), answer.response);
  return with_context([&] { return place_of(make()); },
                      [&] { return parse_token_reply(as_text(answer.response.body)); });
}

std::string form_field(std::string_view name, std::string_view value) {
  return std::string(name) + "=" + percent_encoded(value, Slash::kEncoded);
}

std::string token_form(const GoogleCredentials& credentials, std::int64_t now_s) {
  if (credentials.account.empty())
    return form_field("grant_type", "refresh_token") + "&" +
           form_field("client_id", credentials.client_id) + "&" +
           form_field("client_secret", credentials.client_secret) + "&" +
           form_field("refresh_token", credentials.refresh_token);
  const std::string assertion = signed_jwt({.issuer = credentials.account,
                                            .scope = kScope,
                                            .audience = credentials.token_url,
                                            .issued_s = now_s,
                                            .expires_s = now_s + kJwtLasts},
                                           credentials.key);
  return form_field("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer") + "&" +
         form_field("assertion", assertion);
}

TokenReply exchange(Sender& sender, const GoogleCredentials& credentials, std::int64_t now_s) {
  const std::string form = token_form(credentials, now_s);
  const std::array<ByteView, 1> body = {as_bytes(form)};
  return request_token(sender, [&] {
    HttpRequest request{.method = "POST", .url = credentials.token_url, .body = body};
    request.headers.add("Content-Type", "application/x-www-form-urlencoded");
    request.most_body = kReplyLimits.max_bytes;
    return request;
  });
}

// nullopt: this is not a machine of Google, or one without an account.
std::optional<TokenReply> token_of_machine(Sender& sender, const Surroundings& surroundings) {
  const std::string host =
      surroundings.environment("GCE_METADATA_HOST").value_or("metadata.google.internal");
  const TokenRequest make = [&] {
    HttpRequest request{
        .method = "GET",
        .url = "http://" + host + "/computeMetadata/v1/instance/service-accounts/default/token"};
    request.headers.add("Metadata-Flavor", "Google");
    request.most_body = kReplyLimits.max_bytes;
    return request;
  };
  try {
    const Answer answer = sender.send(make, {.what = "request for a token"});
    const bool is_google = answer.response.headers.find("metadata-flavor") == "Google";
    if (answer.response.status != 200 || !is_google) return std::nullopt;
    return parse_token_reply(as_text(answer.response.body));
  } catch (const Error& e) {
    if (e.code() != Code::kIo && e.code() != Code::kDataLoss) throw;
    return std::nullopt;
  }
}

// Adds a token that it fetches when the one that it has is about to expire.
class FetchedToken : public Signer {
 public:
  // `fetch`: nullopt if there is none, for good.
  FetchedToken(std::function<std::optional<TokenReply>()> fetch,
               std::function<std::int64_t()> now_s)
      : fetch_(std::move(fetch)), now_s_(std::move(now_s)) {}

  void sign(HttpRequest& request) override {
    const std::string token = current();
    if (!token.empty()) add_bearer_token(request, token);
  }
  bool refresh() override {
    const std::scoped_lock lock(mutex_);
    expires_s_ = 0;
    return !is_anonymous_;
  }

 private:
  // Threads that need a token at the same time wait for one request.
  std::string current() {
    const std::scoped_lock lock(mutex_);
    const std::int64_t now = now_s_();
    if (is_anonymous_ || now < expires_s_ - kRefreshedBefore) return token_;
    try {
      const auto reply = fetch_();
      is_anonymous_ = !reply;
      if (reply) token_ = reply->token;
      if (reply) expires_s_ = now + reply->lasts_s;
    } catch (const Error&) {
      if (now >= expires_s_) throw;  // else the token is good for some more requests
    }
    return token_;
  }

  std::function<std::optional<TokenReply>()> fetch_;
  std::function<std::int64_t()> now_s_;
  std::mutex mutex_;
  std::string token_;
  std::int64_t expires_s_ = 0;
  bool is_anonymous_ = false;
};

std::shared_ptr<Signer> signer_of(GoogleCredentials credentials, const Surroundings& surroundings,
                                  RetryPolicy policy) {
  const auto sender = std::make_shared<Sender>(surroundings.transport, nullptr, std::move(policy),
                                               HttpLimits{}, std::make_shared<StoreStats>());
  return std::make_shared<FetchedToken>(
      [sender, credentials = std::move(credentials), now_s = surroundings.now_s] {
        return exchange(*sender, credentials, now_s());
      },
      surroundings.now_s);
}

std::shared_ptr<Signer> signer_of_machine(const Surroundings& surroundings, RetryPolicy policy) {
  using std::chrono::milliseconds;
  // Elsewhere nobody answers. That must not hold up a read of a public bucket.
  constexpr HttpLimits kLimits = {.connect_timeout = milliseconds(1000),
                                  .stall_timeout = milliseconds(3000)};
  policy.retry_time = std::min(policy.retry_time, milliseconds(500));
  const auto sender = std::make_shared<Sender>(surroundings.transport, nullptr, std::move(policy),
                                               kLimits, std::make_shared<StoreStats>());
  return std::make_shared<FetchedToken>([=] { return token_of_machine(*sender, surroundings); },
                                        surroundings.now_s);
}

// gcloud's own file, "" without a home.
std::string gcloud_file(const Surroundings& surroundings) {
  constexpr const char* kName = "/application_default_credentials.json";
  if (const auto folder = surroundings.environment("CLOUDSDK_CONFIG")) return *folder + kName;
  const auto home = surroundings.environment("HOME");
  return home ? *home + "/.config/gcloud" + kName : "";
}

}  // namespace

GoogleCredentials parse_google_credentials(std::string_view json) {
  const Json file = parse_credentials_json(json);
  const std::string type = needed(file, "type");
  GoogleCredentials credentials{.token_url = member(file, "token_uri")};
  if (credentials.token_url.empty()) credentials.token_url = kTokenUrl;
  check_token_url(credentials.token_url);
  if (type == "service_account") {
    credentials.account = needed(file, "client_email");
    credentials.key = {.pem = needed(file, "private_key"), .id = member(file, "private_key_id")};
  } else if (type == "authorized_user") {
    credentials.client_id = needed(file, "client_id");
    credentials.client_secret = needed(file, "client_secret");
    credentials.refresh_token = needed(file, "refresh_token");
  } else {
    throw Error(Code::kUnimplemented,
                "credentials of type \"" + visible_text(type.substr(0, 64)) +
                    "\" are not supported; pass a token as bearer_token, for example that of "
                    "`gcloud auth application-default print-access-token`");
  }
  return credentials;
}

TokenReply parse_token_reply(std::string_view json) {
  Json reply;
  try {
    reply = parse_json(json, kReplyLimits);
  } catch (const Error&) {  // its message could show some of the token
    data_loss("the token service's reply is not valid JSON");
  }
  TokenReply token{.token = member(reply, "access_token")};
  if (!is_bearer_token(token.token))
    data_loss("the token service's reply has no valid access_token");
  const Json* lasts = reply.find("expires_in");
  const auto seconds = lasts == nullptr ? std::nullopt : lasts->as_int64(true);
  constexpr std::int64_t kMostSeconds = std::int64_t{366} * 24 * 3600;
  if (!seconds || *seconds <= 0 || *seconds > kMostSeconds)
    data_loss("the token service's reply has no valid expires_in");
  token.lasts_s = *seconds;
  return token;
}

namespace {

struct CredentialsFile {
  std::string path;
  GoogleCredentials credentials;
};

// nullopt: there is no file, and none is named.
std::optional<CredentialsFile> find_credentials_file(const Surroundings& surroundings) {
  constexpr const char* kVariable = "GOOGLE_APPLICATION_CREDENTIALS";
  const auto named = surroundings.environment(kVariable);
  const std::string path = named && !named->empty() ? *named : gcloud_file(surroundings);
  const auto text = path.empty() ? std::nullopt : surroundings.file(path);
  if (text)
    return with_context([&] { return path; },
                        [&] {
                          return CredentialsFile{path, parse_google_credentials(*text)};
                        });
  if (named && !named->empty())
    throw Error(Code::kNotFound, path + ": no such file; " + kVariable + " names it");
  return std::nullopt;
}

}  // namespace

std::shared_ptr<Signer> find_gcs_signer(const StoreOptions& options, std::string_view endpoint,
                                        const Surroundings& surroundings, RetryPolicy policy) {
  if (options.anonymous) return nullptr;
  if (options.credentials && !options.credentials->bearer_token.empty())
    return std::make_shared<FixedToken>(options.credentials->bearer_token, "bearer_token");
  if (!endpoint.starts_with("https://")) return nullptr;
  if (auto found = find_credentials_file(surroundings))
    return signer_of(std::move(found->credentials), surroundings, std::move(policy));
  return signer_of_machine(surroundings, std::move(policy));
}

std::string gcs_token_source(const StoreOptions& options, std::string_view endpoint,
                             const Surroundings& surroundings) {
  if (options.anonymous) return "anonymous access";
  if (options.credentials && !options.credentials->bearer_token.empty()) return "bearer_token";
  if (!endpoint.starts_with("https://")) return "";
  const auto found = find_credentials_file(surroundings);
  return found ? found->path : "the metadata server";
}

}  // namespace cairn::inline v0::object

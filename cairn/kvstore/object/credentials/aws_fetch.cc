// aws_fetch.cc -- requests that are not signed, to addresses that the environment gives.
#include <cairn/kvstore/object/credentials/aws_fetch.h>

#include <cairn/base/errors.h>
#include <cairn/base/text.h>
#include <cairn/kvstore/object/credentials/aws_keys.h>
#include <cairn/kvstore/object/request/percent.h>
#include <cairn/kvstore/object/request/store_error.h>
#include <cairn/kvstore/object/request/url.h>

#include <algorithm>
#include <array>

namespace cairn::inline v0::object {
namespace {

constexpr std::uint64_t kMostKeysReply = std::uint64_t{64} << 10U;
constexpr HttpLimits kServiceLimits{std::chrono::seconds(5), std::chrono::seconds(10)};
constexpr HttpLimits kMetadataLimits{std::chrono::seconds(1), std::chrono::seconds(1)};

// The text of a file without the line break at its end.
std::string read_secret(const std::string& path, const Surroundings& surroundings) {
  auto text = surroundings.file(path);
  if (!text) throw Error(Code::kNotFound, path + ": no such file");
  while (!text->empty() && (text->back() == '\n' || text->back() == '\r')) text->pop_back();
  return *std::move(text);
}

std::string body_of(const std::function<HttpRequest()>& make, const Surroundings& surroundings,
                    const RetryPolicy& policy) {
  Sender sender(surroundings.transport, nullptr, policy, kServiceLimits,
                std::make_shared<StoreStats>());
  const Answer answer = sender.send(make, {.what = "request for credentials"});
  if (answer.response.status != 200)
    throw Error(Code::kIo, place_of(make()) + ": " + status_text(answer.response));
  return std::string(as_text(answer.response.body));
}

std::string form_of(const WebIdentity& identity, const std::string& token) {
  const auto encoded = [](std::string_view text) { return percent_encoded(text, Slash::kEncoded); };
  return "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=" +
         encoded(identity.role_arn) + "&RoleSessionName=" + encoded(identity.session_name) +
         "&WebIdentityToken=" + encoded(token);
}

// Hosts that answer on this machine: the loopback interface, and the addresses of Amazon's agents.
bool is_on_this_machine(std::string_view url) {
  std::string_view host = origin_of(url);
  host.remove_prefix(std::min(host.size(), std::string_view("http://").size()));
  if (host.starts_with('[')) {
    host = host.substr(0, host.find(']') + 1);
    return host == "[::1]" || host == "[fd00:ec2::23]";
  }
  host = host.substr(0, host.find(':'));
  const std::vector<std::string_view> bytes = split(host, '.');
  const bool is_loopback =
      bytes.size() == 4 && bytes[0] == "127" && consists_of(host, "0123456789.");
  return is_loopback || host == "localhost" || host == "169.254.170.2" || host == "169.254.170.23";
}

HttpRequest metadata_request(std::string method, std::string url, const std::string& header,
                             const std::string& value) {
  HttpRequest request{
      .method = std::move(method), .url = std::move(url), .most_body = kMostKeysReply};
  request.headers.add(header, value);
  return request;
}

// nullopt: the service has no such thing, or there is no service. Anything else is an error, so
// that a machine with a role never goes on without credentials by accident.
std::optional<std::string> metadata(const HttpRequest& request, const Surroundings& surroundings) {
  const auto outcome = surroundings.transport->send(request, kMetadataLimits);
  if (const auto* error = std::get_if<TransportError>(&outcome)) {
    if (error->delivery == Delivery::kNotSent || error->is_timeout) return std::nullopt;
    throw Error(Code::kIo, place_of(request) + ": " + error->why);
  }
  const auto& response = std::get<HttpResponse>(outcome);
  if (response.status == 403 || response.status == 404 || response.status == 405)
    return std::nullopt;
  if (response.status != 200)
    throw Error(Code::kIo, place_of(request) + ": " + status_text(response));
  return std::string(as_text(response.body));
}

// The first line of a text of visible characters; "" for any other.
std::string first_word(std::string_view text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  const bool is_visible =
      std::all_of(line.begin(), line.end(), [](char c) { return c > ' ' && c <= '~'; });
  return std::string(is_visible ? line : "");
}

}  // namespace

AwsKeys fetch_web_identity(const WebIdentity& identity, const Surroundings& surroundings,
                           const RetryPolicy& policy) {
  // Read anew each time: the token is replaced before it expires.
  const std::string form = form_of(identity, read_secret(identity.token_file, surroundings));
  const ByteView body = as_bytes(form);
  const std::string text = body_of(
      [&] {
        HttpRequest request{.method = "POST",
                            .url = identity.endpoint + "/",
                            .body = {&body, 1},
                            .most_body = kMostKeysReply};
        request.headers.add("Content-Type", "application/x-www-form-urlencoded");
        return request;
      },
      surroundings, policy);
  return with_context([&] { return identity.endpoint; }, [&] { return parse_sts_keys(text); });
}

AwsKeys fetch_container(const ContainerEndpoint& endpoint, const Surroundings& surroundings,
                        const RetryPolicy& policy) {
  if (!endpoint.url.starts_with("https://") && !is_on_this_machine(endpoint.url))
    invalid_argument(
        "the URL of the container's credentials must be https://, or lead to this machine");
  const std::string token =
      endpoint.token_file.empty() ? endpoint.token : read_secret(endpoint.token_file, surroundings);
  const std::string text = body_of(
      [&] {
        HttpRequest request{.method = "GET", .url = endpoint.url, .most_body = kMostKeysReply};
        if (!token.empty()) request.headers.add("Authorization", token);
        return request;
      },
      surroundings, policy);
  return parse_json_keys(text);
}

std::optional<AwsKeys> fetch_instance(const std::string& endpoint,
                                      const Surroundings& surroundings) {
  const auto token = metadata(metadata_request("PUT", endpoint + "/latest/api/token",
                                               "X-aws-ec2-metadata-token-ttl-seconds", "21600"),
                              surroundings);
  const std::string word = token ? first_word(*token) : "";
  if (word.empty()) return std::nullopt;
  const std::string path = endpoint + "/latest/meta-data/iam/security-credentials/";
  const auto ask = [&](const std::string& url) {
    return metadata(metadata_request("GET", url, "X-aws-ec2-metadata-token", word), surroundings);
  };
  const auto roles = ask(path);
  const std::string role = roles ? first_word(*roles) : "";
  if (role.empty()) return std::nullopt;
  const auto text = ask(path + percent_encoded(role, Slash::kEncoded));
  if (!text) return std::nullopt;
  return parse_json_keys(*text);
}

}  // namespace cairn::inline v0::object

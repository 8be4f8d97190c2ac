// sigv4.cc -- AWS Signature Version 4.
#include <cairn/kvstore/object/request/sigv4.h>

#include <cairn/base/text.h>
#include <cairn/kvstore/object/request/store_time.h>
#include <cairn/kvstore/object/request/url.h>
#include <cairn/kvstore/object/transport/crypto.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace cairn::inline v0::object {
namespace {

constexpr std::string_view kAlgorithm = "AWS4-HMAC-SHA256";

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

// Without spaces at both ends, and with one for several in between.
std::string with_single_spaces(std::string_view value) {
  std::string out;
  for (const char c : value) {
    if (c == ' ' && (out.empty() || out.back() == ' ')) continue;
    out += c;
  }
  if (out.ends_with(' ')) out.pop_back();
  return out;
}

std::string canonical_query(std::string_view query) {
  if (query.empty()) return {};
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const std::string_view each : split(query, '&')) {
    const std::size_t equals = std::min(each.find('='), each.size());
    pairs.emplace_back(each.substr(0, equals), each.substr(std::min(equals + 1, each.size())));
  }
  std::sort(pairs.begin(), pairs.end());
  std::string out;
  for (const auto& [name, value] : pairs) {
    if (!out.empty()) out += '&';
    out.append(name).append("=").append(value);
  }
  return out;
}

struct CanonicalHeaders {
  std::string lines;  // "host:h\nrange:bytes=0-9\n"
  std::string names;  // "host;range"
};

CanonicalHeaders canonical_headers(const HttpRequest& request, std::string_view host) {
  std::map<std::string, std::string> sorted{{"host", std::string(host)}};
  for (const auto& [name, value] : request.headers.fields()) {
    std::string& all = sorted[lower_case(name)];
    if (!all.empty()) all += ',';
    all += with_single_spaces(value);
  }
  CanonicalHeaders canonical;
  for (const auto& [name, value] : sorted) {
    canonical.lines.append(name).append(":").append(value).append("\n");
    if (!canonical.names.empty()) canonical.names += ';';
    canonical.names += name;
  }
  return canonical;
}

// The Host header that a client sends: without the port if that is the scheme's own.
std::string_view host_of(std::string_view url) {
  const std::string_view origin = origin_of(url);
  const std::string_view default_port = origin.starts_with("https:") ? ":443" : ":80";
  std::string_view host = origin.substr(origin.find("://") + 3);
  if (host.ends_with(default_port)) host.remove_suffix(default_port.size());
  return host;
}

std::string hash_of_text(std::string_view text) { return hex_digits(sha256(as_bytes(text))); }

// A key that is good for a day, a region and a service.
Sha256Digest derived_key(const SigningKey& key, std::string_view day) {
  Sha256Digest derived = hmac_sha256(as_bytes("AWS4" + key.secret_key), as_bytes(day));
  for (const std::string_view next : {std::string_view(key.region), std::string_view(key.service),
                                      std::string_view("aws4_request")})
    derived = hmac_sha256(derived, as_bytes(next));
  return derived;
}

void add_unsigned_headers(HttpRequest& request, std::string_view payload_hash,
                          const SigningKey& key, const std::string& time) {
  request.headers.add("x-amz-date", time);
  if (!key.session_token.empty()) request.headers.add("x-amz-security-token", key.session_token);
  if (key.service == "s3") request.headers.add("x-amz-content-sha256", std::string(payload_hash));
}

std::string canonical_request_of(const HttpRequest& request, const CanonicalHeaders& headers,
                                 std::string_view payload_hash) {
  const std::string_view url = request.url;
  const std::string_view target = url.substr(origin_of(url).size());
  const std::size_t question = std::min(target.find('?'), target.size());
  const std::string_view path = target.substr(0, question);
  const std::string_view query = target.substr(std::min(question + 1, target.size()));
  std::string out = request.method + "\n";
  out.append(path.empty() ? "/" : path).append("\n").append(canonical_query(query)).append("\n");
  out.append(headers.lines).append("\n").append(headers.names).append("\n").append(payload_hash);
  return out;
}

}  // namespace

SignedParts sign_v4(HttpRequest& request, std::string_view payload_hash, const SigningKey& key,
                    std::int64_t now_s) {
  const std::string time = compact_time(now_s), day = time.substr(0, 8);
  add_unsigned_headers(request, payload_hash, key, time);
  const auto headers = canonical_headers(request, host_of(request.url));
  const std::string scope = day + "/" + key.region + "/" + key.service + "/aws4_request";
  SignedParts parts;
  parts.canonical_request = canonical_request_of(request, headers, payload_hash);
  parts.string_to_sign = std::string(kAlgorithm) + "\n" + time + "\n" + scope + "\n" +
                         hash_of_text(parts.canonical_request);
  const auto signature = hmac_sha256(derived_key(key, day), as_bytes(parts.string_to_sign));
  parts.authorization = std::string(kAlgorithm) + " Credential=" + key.access_key + "/" + scope +
                        ", SignedHeaders=" + headers.names + ", Signature=" + hex_digits(signature);
  request.headers.add("authorization", parts.authorization);
  return parts;
}

std::string payload_hash_of(const HttpRequest& request) { return hex_digits(sha256(request.body)); }

}  // namespace cairn::inline v0::object

// object_location.cc -- the buckets and web servers that specs name.
#include <cairn/tensorstore_spec/object_location.h>

#include <cairn/kvstore/object/gcs/open_gcs.h>
#include <cairn/kvstore/object/http/open_http.h>
#include <cairn/kvstore/object/request/percent.h>
#include <cairn/kvstore/object/request/url.h>
#include <cairn/kvstore/object/s3/open_s3.h>
#include <cairn/tensorstore_spec/aws_access.h>
#include <cairn/tensorstore_spec/http_headers.h>
#include <cairn/tensorstore_spec/members.h>

#include <algorithm>
#include <functional>
#include <utility>

namespace cairn::inline v0::tensorstore_spec {
namespace {

using object::StoreUrl;

// A store whose keys are names of objects. `open` gets the name of a folder, or "".
StoreLocation objects(std::string path, const std::string& pointer,
                      std::function<StorePtr(const std::string& folder)> open) {
  StoreLocation location;
  location.path = std::move(path);
  location.is_external = true;
  location.below = [pointer, open = std::move(open)](const std::string& prefix) {
    return with_context([&] { return "spec " + pointer; },
                        [&] {
                          if (prefix.empty()) return open("");
                          // Only one '/': a second one would be part of the names of objects.
                          const std::string folder = prefix.substr(0, prefix.size() - 1);
                          object::check_object_key(folder);
                          return open(folder);
                        });
  };
  return location;
}

// Throws invalid_argument for a name that no bucket has. `scheme` is that of its URLs.
void check_bucket(const std::string& bucket, const char* scheme, const std::string& pointer) {
  const auto parsed = with_context([&] { return "spec " + pointer; },
                                   [&] { return object::parse_store_url(scheme + bucket); });
  if (parsed.bucket != bucket) refuse(pointer, "is not the name of a bucket");
}

std::string bucket_of(Members& members, const char* scheme) {
  (void)members.require("bucket");
  std::string bucket = *members.text("bucket");
  check_bucket(bucket, scheme, members.pointer("bucket"));
  return bucket;
}

StoreLocation gcs_bucket(const std::string& bucket, std::string path, const std::string& pointer,
                         const Scope& scope) {
  StoreOptions options = scope.context().store_options();
  const object::Surroundings& surroundings = scope.surroundings();
  if (options.endpoint.empty())
    options.endpoint = surroundings.environment("TENSORSTORE_GCS_HTTP_URL").value_or("");
  return objects(std::move(path), pointer, [=](const std::string& folder) {
    return object::open_gcs_store(bucket, folder, options, surroundings);
  });
}

StoreLocation s3_bucket(const std::string& bucket, std::string path, const std::string& pointer,
                        const AwsAccess& access, const object::S3RequestOptions& requests) {
  return objects(std::move(path), pointer, [=](const std::string& folder) {
    return object::open_s3_store(bucket, folder, access.options, access.surroundings, requests);
  });
}

// Keys that the caller gave are for the server that the caller gave: a spec must not send requests
// that are signed with them elsewhere.
void apply_endpoint(Members& members, StoreOptions& options) {
  const auto endpoint = members.text("endpoint");
  if (!endpoint) return;
  const std::string pointer = members.pointer("endpoint");
  const std::string_view origin = object::origin_of(*endpoint);
  const std::string_view rest = std::string_view(*endpoint).substr(origin.size());
  if (origin.empty() || (!rest.empty() && rest != "/") || origin.find('@') != std::string::npos ||
      !(origin.starts_with("http://") || origin.starts_with("https://")))
    refuse(pointer, "expected a scheme and a host, as http://localhost:9000 is");
  std::string_view given = options.endpoint;
  while (given.ends_with('/')) given.remove_suffix(1);
  if (options.credentials && given != origin)
    refuse(
        pointer,
        "the credentials of the SpecContext are for another endpoint; give it the same endpoint");
  options.endpoint = origin;
  if (!options.path_style) options.path_style = true;
}

void refuse_s3_members(Members& members) {
  if (members.take("host_header"))
    refuse(members.pointer("host_header"),
           "Cairn signs requests for the host that gets them; leave it out, and let \"endpoint\" "
           "name that host",
           Code::kUnimplemented);
  if (members.flag("use_conditional_write") == false)
    refuse(members.pointer("use_conditional_write"),
           "Cairn replaces values on condition only; leave it out", Code::kUnimplemented);
}

// The URL of a web server, and the names below it.
StoreLocation web_server(const StoreUrl& url, std::string path, const std::string& pointer,
                         const Scope& scope, const object::HttpHeaders& headers) {
  const StoreOptions options = scope.context().store_options();
  return objects(std::move(path), pointer,
                 [=, surroundings = scope.surroundings()](const std::string& folder) {
                   StoreUrl at = url;
                   at.path =
                       folder.empty() ? "" : "/" + percent_encoded(folder, object::Slash::kKept);
                   return open_http_store(at, options, surroundings, headers);
                 });
}

// Parses "http://host/a%20b/". The path is decoded: "a b/".
std::pair<StoreUrl, std::string> parse_web_url(const std::string& url, const std::string& pointer) {
  StoreUrl parsed =
      with_context([&] { return "spec " + pointer; }, [&] { return object::parse_store_url(url); });
  if (parsed.scheme != object::StoreScheme::kHttp)
    refuse(pointer, "expected a URL that begins with http:// or https://");
  if (url.ends_with("//")) refuse(pointer, "its path has an empty part");
  std::string path = object::percent_decoded_text(parsed.path).value();
  if (!path.empty()) path.erase(0, 1);
  if (!path.empty() && url.ends_with('/')) path += '/';
  parsed.path.clear();
  return {std::move(parsed), std::move(path)};
}

}  // namespace

StoreLocation parse_gcs(Members& members, const Scope& outer) {
  const Scope scope = outer.inside(members);
  const std::string bucket = bucket_of(members, "gs://");
  std::string path = members.text("path").value_or("");
  if (const Resource payer = scope.find(members, "gcs_user_project"); payer.settings) {
    Members project(*payer.settings, payer.pointer);
    project.reject_unsupported({"project_id"});
    project.finish();
  }
  members.pass_over_resources({"gcs_request_concurrency", "gcs_request_retries",
                               "experimental_gcs_rate_limiter", "data_copy_concurrency"});
  members.finish();
  return gcs_bucket(bucket, std::move(path), members.here(), scope);
}

StoreLocation parse_s3(Members& members, const Scope& outer) {
  const Scope scope = outer.inside(members);
  AwsAccess access{scope.context().store_options(), scope.surroundings()};
  if (!members.take("bucket") && members.take("endpoint"))
    refuse(members.pointer("bucket"),
           "is missing: Cairn needs it beside \"endpoint\", which must not hold it",
           Code::kUnimplemented);
  const std::string bucket = bucket_of(members, "s3://");
  std::string path = members.text("path").value_or("");
  apply_endpoint(members, access.options);
  if (auto region = members.text("aws_region"); region && !region->empty())
    access.options.region = *std::move(region);
  apply_credentials(scope.find(members, "aws_credentials"), access);
  const object::S3RequestOptions requests{.requester_pays =
                                              members.flag("requester_pays").value_or(false)};
  refuse_s3_members(members);
  members.pass_over_resources({"s3_request_concurrency", "s3_request_retries",
                               "experimental_s3_rate_limiter", "data_copy_concurrency"});
  members.finish();
  return s3_bucket(bucket, std::move(path), members.here(), access, requests);
}

StoreLocation parse_http(Members& members, const Scope& outer) {
  const Scope scope = outer.inside(members);
  const Json& base = members.require("base_url");
  const std::string pointer = members.pointer("base_url");
  if (!base.as_string()) refuse(pointer, "expected a string");
  auto [url, path] = parse_web_url(*base.as_string(), pointer);
  if (const auto below = members.text("path"); below && !below->empty()) {
    const bool is_absolute = below->starts_with('/');
    if (is_absolute && !path.empty())
      refuse(members.pointer("path"), "begins with \"/\", but \"base_url\" has a path, too");
    path = folder_prefix(std::move(path)) + below->substr(is_absolute ? 1 : 0);
  }
  const object::HttpHeaders headers = parse_http_headers(members);
  members.pass_over_resources({"http_request_concurrency", "http_request_retries"});
  members.finish();
  return web_server(url, std::move(path), members.here(), scope, headers);
}

bool is_object_url(std::string_view url) { return object::store_scheme_of(url).has_value(); }

StoreLocation parse_object_url(std::string_view url, const std::string& pointer,
                               const Scope& scope) {
  const object::StoreScheme scheme = object::store_scheme_of(url).value();
  if (scheme == object::StoreScheme::kHttp) {
    auto [at, path] = parse_web_url(std::string(url), pointer);
    return web_server(at, std::move(path), pointer, scope, {});
  }
  if (url.find_first_of("?#") != std::string_view::npos)
    refuse(pointer, "\"?\" and \"#\" in a path must be written %3F and %23");
  const std::string_view rest = url.substr(url.find("://") + 3);
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  const std::string bucket(rest.substr(0, slash));
  const bool is_s3 = scheme == object::StoreScheme::kS3;
  check_bucket(bucket, is_s3 ? "s3://" : "gs://", pointer);
  auto path = object::percent_decoded_text(rest.substr(std::min(slash + 1, rest.size())));
  if (!path) refuse(pointer, "\"%\" needs two hexadecimal digits");
  if (!is_s3) return gcs_bucket(bucket, *std::move(path), pointer, scope);
  AwsAccess access{scope.context().store_options(), scope.surroundings()};
  const Json nothing = JsonObject();
  Members members(nothing, pointer);
  apply_credentials(scope.find(members, "aws_credentials"), access);
  return s3_bucket(bucket, *std::move(path), pointer, access, {});
}

}  // namespace cairn::inline v0::tensorstore_spec

// aws_endpoint.cc -- endpoint, region and addressing style.
#include <cairn/base/errors.h>
#include <cairn/base/text.h>
#include <cairn/kvstore/object/credentials/aws_credentials.h>
#include <cairn/kvstore/object/credentials/aws_profile.h>
#include <cairn/kvstore/object/request/url.h>

#include <initializer_list>
#include <utility>

namespace cairn::inline v0::object {
namespace {

constexpr std::string_view kRegionCharacters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
constexpr std::size_t kLongestRegion = 64;

// A value, and where it is from, for messages.
struct Setting {
  std::string value;
  std::string from;
};

Setting setting_of(std::optional<std::string> value, std::string from) {
  return {std::move(value).value_or(""), std::move(from)};
}

Setting first_set(std::initializer_list<Setting> settings) {
  for (const Setting& setting : settings)
    if (!setting.value.empty()) return setting;
  return {};
}

class Settings {
 public:
  Settings(const StoreOptions& options, const Surroundings& surroundings)
      : options_(options),
        surroundings_(surroundings),
        profile_(AwsProfile::load(options, surroundings)) {}

  [[nodiscard]] std::string endpoint() const {
    Setting found{options_.endpoint, "StoreOptions::endpoint"};
    if (found.value.empty() && variable("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS").value != "true")
      found = first_set({variable("AWS_ENDPOINT_URL_S3"), variable("AWS_ENDPOINT_URL"),
                         setting_of(profile_.service_value("s3.endpoint_url"), profile_.where()),
                         of_profile("endpoint_url")});
    return std::string(checked_endpoint(found));
  }

  [[nodiscard]] std::string region() const {
    const Setting found = first_set({{options_.region, "StoreOptions::region"},
                                     variable("AWS_REGION"),
                                     variable("AWS_DEFAULT_REGION"),
                                     of_profile("region")});
    if (found.value.empty()) return "us-east-1";
    if (found.value.size() > kLongestRegion || !consists_of(found.value, kRegionCharacters))
      invalid_argument("the region of " + found.from + " is not the name of a region");
    return found.value;
  }

  // Other servers than Amazon's seldom have a host name for each bucket.
  [[nodiscard]] bool path_style(std::string_view endpoint) const {
    if (options_.path_style) return *options_.path_style;
    const std::string style = of_profile("s3.addressing_style").value;
    if (style == "path" || style == "virtual") return style == "path";
    return !endpoint.empty() && !endpoint.ends_with(".amazonaws.com") &&
           !endpoint.ends_with(".amazonaws.com.cn");
  }

  [[nodiscard]] std::string ca_file() const {
    return first_set({{options_.ca_file, ""}, variable("AWS_CA_BUNDLE"), of_profile("ca_bundle")})
        .value;
  }

 private:
  [[nodiscard]] Setting variable(const std::string& name) const {
    return setting_of(surroundings_.environment(name), name);
  }
  [[nodiscard]] Setting of_profile(std::string_view name) const {
    return setting_of(profile_.value(name), profile_.where());
  }

  // An origin: a scheme and a host. A value may hold a password, so it is not shown.
  static std::string_view checked_endpoint(const Setting& setting) {
    const std::string_view url = without_final_slashes(setting.value);
    if (url.empty()) return {};
    const bool has_scheme = url.starts_with("http://") || url.starts_with("https://");
    const bool is_origin = has_scheme && origin_of(url) == url &&
                           url.find('@') == std::string_view::npos &&
                           url.find_first_of(" \t\r\n\\\"<>") == std::string_view::npos;
    if (!is_origin)
      invalid_argument("the endpoint of " + setting.from +
                       " is not a scheme and a host, as http://localhost:9000 is");
    return url;
  }

  const StoreOptions& options_;
  const Surroundings& surroundings_;
  AwsProfile profile_;
};

}  // namespace

AwsEndpoint find_aws_endpoint(const StoreOptions& options, const Surroundings& surroundings) {
  const Settings settings(options, surroundings);
  AwsEndpoint found{.endpoint = settings.endpoint(), .region = settings.region()};
  found.path_style = settings.path_style(found.endpoint);
  found.ca_file = settings.ca_file();
  return found;
}

}  // namespace cairn::inline v0::object

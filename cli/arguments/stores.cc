// stores.cc -- endpoints, TLS, and the refusal of URLs.
#include "arguments/stores.h"

#include "source.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cctype>
#include <string_view>

namespace cairn::cli {
namespace {

constexpr const char* kStores = "Stores";

// True for s3://bucket/key and other URLs, but file:///path.
bool is_url(std::string_view place) {
  const std::string_view scheme = place.substr(0, place.find("://"));
  const bool is_scheme = !scheme.empty() && scheme.size() < place.size() &&
                         std::all_of(scheme.begin(), scheme.end(), [](unsigned char c) {
                           return std::isalnum(c) != 0 || c == '+' || c == '-' || c == '.';
                         });
  return is_scheme && scheme != "file";
}

std::string refusal(const CLI::App& command, const std::string& place, const std::string& why) {
  return "'" + place + "' is a URL, but cairn " + command.get_name() + " " + why;
}

// A URL may hold a password, so it is shown only if it cannot.
std::string flaw_of_endpoint(const std::string& url) {
  if (url.find('@') != std::string::npos)
    return "the URL has a user or a password; keys come from the environment or a profile";
  if (url.starts_with("http://") || url.starts_with("https://")) return "";
  return "'" + url + "' is not a URL such as http://localhost:9000";
}

void check_endpoint(CLI::Option* option) {
  option->check(CLI::Validator([](std::string& url) { return flaw_of_endpoint(url); }, ""));
}

}  // namespace

void add_store_options(CLI::App& command, StoreOptions& store) {
  auto* endpoint =
      command.add_option("--endpoint", store.endpoint,
                         "The server of s3://, gs:// or hf:// URLs, such as http://localhost:9000 "
                         "(default: from the environment or the profile, otherwise the vendor's)");
  check_endpoint(endpoint->type_name("URL")->group(kStores));
  check_not_empty(command.add_option("--region", store.region,
                                     "The region of the bucket (s3; default: from the environment "
                                     "or the profile, otherwise us-east-1)"))
      ->type_name("NAME")
      ->group(kStores);
  check_not_empty(command.add_option("--profile", store.profile,
                                     "The section of ~/.aws/config and ~/.aws/credentials to use, "
                                     "even if the environment has keys (s3; default: AWS_PROFILE)"))
      ->type_name("NAME")
      ->group(kStores);
  command
      .add_flag("--anonymous", store.anonymous,
                "Do not use credentials, even if some are configured; for public buckets")
      ->group(kStores);
  auto* ca_file = command.add_option(
      "--ca-file", store.ca_file, "Trust the certificates in FILE (PEM) instead of the system's");
  check_path(check_local(command, ca_file, "reads certificates from a local file"))
      ->type_name("FILE")
      ->group(kStores);
  command
      .add_flag_callback(
          "--no-verify-tls", [&store] { store.verify_tls = false; },
          "Accept any certificate. Others on the network can then pose as the server, read the "
          "data and tokens, and change the data. Prefer --ca-file")
      ->excludes(ca_file)
      ->group(kStores);
}

void check_one_server(const std::string& source, const std::string& target,
                      const StoreOptions& store) {
  if (store.endpoint.empty() || !is_url(source) || !is_url(target)) return;
  const auto scheme = [](const std::string& url) { return url.substr(0, url.find("://")); };
  if (scheme(source) == scheme(target)) return;
  throw UsageError("--endpoint '" + store.endpoint + "' would count for '" + source +
                   "' and for '" + target +
                   "'; set AWS_ENDPOINT_URL_S3 (s3://) or STORAGE_EMULATOR_HOST (gs://) instead");
}

CLI::Option* check_local(const CLI::App& command, CLI::Option* option, const std::string& why) {
  return option->check(CLI::Validator(
      [&command, why](std::string& place) {
        return is_url(place) ? refusal(command, place, why) : std::string();
      },
      ""));
}

}  // namespace cairn::cli

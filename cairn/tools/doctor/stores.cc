// stores.cc -- check_stores(), check_place() and check_url(): what URLs need.
#include <cairn/tools/doctor/doctor.h>

#include <cairn/base/errors.h>
#include <cairn/kvstore/folders/resolve.h>
#include <cairn/kvstore/object/credentials/aws_credentials.h>
#include <cairn/kvstore/object/gcs/open_gcs.h>
#include <cairn/kvstore/object/http/hub_store.h>
#include <cairn/kvstore/object/http/hub_url.h>
#include <cairn/kvstore/object/request/url.h>
#include <cairn/kvstore/object/transport/crypto.h>
#include <cairn/kvstore/object/transport/curl_api.h>
#include <cairn/storage/kvstore.h>
#include <cairn/tools/doctor/checks.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string_view>

namespace cairn::inline v0::doctor {
namespace {

constexpr std::chrono::milliseconds kPatience{5000};

template <class F>
void check_library(Section& section, const std::string& name, const std::string& advice, F f) {
  const auto version = try_call([&] { return std::string(f()); });
  if (version.ok())
    section.good(name, version.value());
  else
    section.note(name, "cannot be loaded: " + std::string(version.error().message()), advice);
}

// The system's certificates; libcurl knows more places, of other distributions.
void check_certificates(const StoreOptions& options, Section& section) {
  if (!options.ca_file.empty()) return section.good("certificates", options.ca_file);
  for (const char* path : {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
                           "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"})
    if (std::error_code error; std::filesystem::exists(path, error))
      return section.good("certificates", path);
  section.note("certificates", "none",
               "https:// servers are refused: install the package ca-certificates, or give "
               "--ca-file");
}

// The names alone: the values may hold a password.
void check_proxies(Section& section) {
  std::string set;
  for (const char* name : {"http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY",
                           "no_proxy", "NO_PROXY"})
    if (const char* value = std::getenv(name); value != nullptr && *value != '\0')
      set.append(set.empty() ? "" : ", ").append(name);
  section.good("proxy variables", set.empty() ? "none" : set);
}

Section check_transport(const StoreOptions& options) {
  Section section("stores");
  check_library(section, "libcurl", "URLs cannot be read or written",
                [] { return object::curl_api().version(); });
  check_library(section, "libcrypto", "s3:// and gs:// URLs need it for signatures",
                [] { return object::crypto_version(); });
  check_certificates(options, section);
  check_proxies(section);
  return section;
}

// `find` returns the source, "" for none, and throws for a broken configuration.
template <class F>
void check_source(Section& section, const std::string& name, F find) {
  const auto source = try_call([&] { return std::string(find()); });
  if (!source.ok())
    return section.note(name, "broken: " + std::string(source.error().message()),
                        "requests to this kind of store fail until it is repaired");
  section.good(name, source.value().empty() ? "none: requests go unsigned" : source.value());
}

bool is_asked_later(std::string_view source) {
  return source == "the instance metadata" || source == "the container" ||
         source == "the metadata server";
}

// A service is asked when the first request is signed.
std::string with_service(const std::string& source) {
  return is_asked_later(source) ? source + " (not asked)" : source;
}

Section check_credentials(const StoreOptions& options) {
  const object::Surroundings surroundings = object::process_surroundings(nullptr);
  Section section("credentials");
  check_source(section, "s3", [&] {
    return with_service(object::find_aws_credentials(options, surroundings)->source());
  });
  check_source(section, "gs",
               [&] { return with_service(object::gcs_token_source(options, surroundings)); });
  check_source(section, "hf", [&] { return object::hub_token_source(options, surroundings); });
  return section;
}

// Throws invalid_argument for a URL of a form that no store has.
void check_form(const std::string& url) {
  if (url.starts_with("hf://"))
    (void)object::parse_hub_url(url);
  else
    (void)object::parse_store_url(url);
}

// "", or why there is nothing to read below the URL.
std::string listed(const std::string& url, const StoreOptions& options) {
  const StorePtr store = open_store(url, options);
  const bool is_hub = url.starts_with("hf://");  // it lists a folder at once
  const StoreListing found = is_hub ? store->list_level("") : store->list_values("", 1);
  return found.values.empty() && found.folders.empty() ? "nothing is stored there" : "";
}

// As listed(). A web server lists nothing, so this asks for one file.
std::string asked_for(const std::string& url, const StoreOptions& options) {
  const std::size_t slash = url.rfind('/');
  const StorePtr store = open_store(url.substr(0, slash), options);
  return store->size(url.substr(slash + 1)) ? "" : "there is no such file";
}

}  // namespace

std::vector<Check> check_stores(const StoreOptions& options) {
  std::vector<Check> checks = check_transport(options).take();
  std::vector<Check> more = check_credentials(options).take();
  std::move(more.begin(), more.end(), std::back_inserter(checks));
  return checks;
}

std::vector<Check> check_url(const std::string& url, const StoreOptions& options) {
  StoreOptions soon = options;
  soon.retry_time = std::min(soon.retry_time, kPatience);
  soon.connect_timeout = std::min(soon.connect_timeout, kPatience);
  const std::string place = normal_path(url);
  check_form(place);  // a refused URL may hold a password, and is not shown
  Section section("store");
  section.good("url", place);
  const auto start = std::chrono::steady_clock::now();
  const auto missing =
      try_call([&] { return can_list(place) ? listed(place, soon) : asked_for(place, soon); });
  const auto time = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - start);
  if (!missing.ok()) {
    section.problem("answers", "no", std::string(missing.error().message()));
  } else {
    section.good("answers", "yes, in " + std::to_string(time.count()) + " ms");
    if (missing.value().empty())
      section.good("content", "yes");
    else
      section.note("content", "no", missing.value());
  }
  return std::move(section).take();
}

std::vector<Check> check_place(const std::string& place, const StoreOptions& options) {
  return is_store_url(place) ? check_url(place, options) : check_folder(local_path(place));
}

}  // namespace cairn::inline v0::doctor

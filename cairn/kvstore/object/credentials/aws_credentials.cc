// aws_credentials.cc -- the search for keys, and keys that are fetched again.
#include <cairn/kvstore/object/credentials/aws_credentials.h>

#include <cairn/base/errors.h>
#include <cairn/kvstore/object/credentials/aws_fetch.h>
#include <cairn/kvstore/object/credentials/aws_keys.h>
#include <cairn/kvstore/object/credentials/aws_profile.h>
#include <cairn/kvstore/object/request/retry.h>

#include <algorithm>
#include <mutex>
#include <utility>

namespace cairn::inline v0::object {
namespace {

constexpr std::int64_t kFetchBeforeEnd = 300;  // seconds
constexpr std::int64_t kNotFetchedAgain = 10;  // seconds

class NoKeys : public AwsCredentials {
 public:
  explicit NoKeys(std::string source) : source_(std::move(source)) {}
  std::optional<AwsKeys> get() override { return std::nullopt; }
  bool refresh() override { return false; }
  std::string source() const override { return source_; }

 private:
  std::string source_;
};

// Keys that never change.
class FixedKeys : public AwsCredentials {
 public:
  FixedKeys(AwsKeys keys, std::string source) : keys_(std::move(keys)), source_(std::move(source)) {
    with_context([&] { return source_; }, [&] { check_keys(keys_); });
  }
  std::optional<AwsKeys> get() override { return keys_; }
  bool refresh() override { return false; }
  std::string source() const override { return source_; }

 private:
  AwsKeys keys_;
  std::string source_;
};

// Keys without which no request may be sent.
class RequiredKeys : public AwsCredentials {
 public:
  explicit RequiredKeys(std::shared_ptr<AwsCredentials> keys) : keys_(std::move(keys)) {}
  std::optional<AwsKeys> get() override {
    if (auto keys = keys_->get()) return keys;
    throw Error(Code::kFailedPrecondition, "credentials of " + source() + ": there are none");
  }
  bool refresh() override { return keys_->refresh(); }
  std::string source() const override { return keys_->source(); }

 private:
  std::shared_ptr<AwsCredentials> keys_;
};

class FetchedKeys : public AwsCredentials {
 public:
  using Fetch = std::function<std::optional<AwsKeys>()>;

  FetchedKeys(Fetch fetch, std::function<std::int64_t()> now_s, std::string source)
      : fetch_(std::move(fetch)), now_s_(std::move(now_s)), source_(std::move(source)) {}

  std::optional<AwsKeys> get() override {
    const std::scoped_lock lock(mutex_);  // one thread fetches, the others wait for its keys
    if (!has_fetched_)
      fetch();
    else if (keys_ && keys_->expires_s && now_s_() >= next_fetch_s_)
      fetch_early();
    return keys_;
  }

  // Many threads hear of expired keys at once; the first one fetches for all.
  bool refresh() override {
    const std::scoped_lock lock(mutex_);
    if (has_fetched_ && now_s_() - fetched_s_ < kNotFetchedAgain) return true;
    const std::optional<AwsKeys> old = keys_;
    fetch();
    return keys_ != old;
  }

  std::string source() const override { return source_; }

 private:
  void fetch() {
    keys_ = with_context([&] { return "credentials of " + source_; }, fetch_);
    has_fetched_ = true;
    fetched_s_ = now_s_();
    if (keys_ && keys_->expires_s) next_fetch_s_ = *keys_->expires_s - kFetchBeforeEnd;
    next_fetch_s_ = std::max(next_fetch_s_, fetched_s_ + kNotFetchedAgain);
  }

  // Keys that are still good are used if their service fails.
  void fetch_early() {
    try {
      fetch();
    } catch (const Error& e) {
      if (e.code() == Code::kCancelled || now_s_() >= *keys_->expires_s) throw;
      next_fetch_s_ = now_s_() + kNotFetchedAgain;
    }
  }

  std::mutex mutex_;
  Fetch fetch_;
  std::function<std::int64_t()> now_s_;
  std::string source_;
  std::optional<AwsKeys> keys_;
  bool has_fetched_ = false;
  std::int64_t fetched_s_ = 0;
  std::int64_t next_fetch_s_ = 0;
};

using Found = std::shared_ptr<AwsCredentials>;

// Each function returns null if its source is not configured.
class Search {
 public:
  Search(const StoreOptions& options, const Surroundings& surroundings, RetryPolicy policy)
      : options_(options), around_(surroundings), policy_(std::move(policy)) {}

  Found find() const {
    if (around_.keys_from != AwsSource::kFirst && !options_.anonymous) return selected();
    if (Found found = of_options()) return found;
    // A profile that the caller names comes before the environment.
    if (options_.profile.empty()) {
      if (Found found = of_environment()) return found;
      if (Found found = of_web_identity()) return found;
    }
    if (Found found = of_profile()) return found;
    if (Found found = of_container()) return found;
    if (Found found = of_instance()) return found;
    return std::make_shared<NoKeys>("no credentials");
  }

  [[nodiscard]] Found selected() const {
    switch (around_.keys_from) {
      case AwsSource::kEnvironment:
        return required(of_environment(),
                        "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set");
      case AwsSource::kProfile:
        return required(of_profile(), "the profile has no keys");
      case AwsSource::kContainer:
        return required(of_container(), "AWS_CONTAINER_CREDENTIALS_FULL_URI is not set");
      default:
        return required(of_instance(), "AWS_EC2_METADATA_DISABLED is true");
    }
  }
  static Found required(Found found, const char* why_none) {
    if (!found) throw Error(Code::kFailedPrecondition, std::string("no credentials: ") + why_none);
    return std::make_shared<RequiredKeys>(std::move(found));
  }

 private:
  [[nodiscard]] std::string variable(const std::string& name) const {
    return around_.environment(name).value_or("");
  }
  [[nodiscard]] Found fetched(FetchedKeys::Fetch fetch, std::string source) const {
    return std::make_shared<FetchedKeys>(std::move(fetch), around_.now_s, std::move(source));
  }

  [[nodiscard]] Found of_options() const {
    if (options_.anonymous) return std::make_shared<NoKeys>("anonymous access");
    if (!options_.credentials || options_.credentials->access_key.empty()) return nullptr;
    const StoreCredentials& given = *options_.credentials;
    return std::make_shared<FixedKeys>(AwsKeys{.access_key = given.access_key,
                                               .secret_key = given.secret_key,
                                               .session_token = given.session_token},
                                       "StoreOptions::credentials");
  }

  [[nodiscard]] Found of_environment() const {
    AwsKeys keys{.access_key = variable("AWS_ACCESS_KEY_ID"),
                 .secret_key = variable("AWS_SECRET_ACCESS_KEY"),
                 .session_token = variable("AWS_SESSION_TOKEN")};
    if (keys.access_key.empty() && keys.secret_key.empty()) return nullptr;
    if (keys.access_key.empty() || keys.secret_key.empty())
      invalid_argument("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY: only one of them is set");
    return std::make_shared<FixedKeys>(std::move(keys), "AWS_ACCESS_KEY_ID");
  }

  [[nodiscard]] Found of_web_identity() const {
    const std::string file = variable("AWS_WEB_IDENTITY_TOKEN_FILE");
    const std::string role = variable("AWS_ROLE_ARN");
    if (file.empty()) return nullptr;
    if (role.empty()) invalid_argument("AWS_WEB_IDENTITY_TOKEN_FILE is set, but not AWS_ROLE_ARN");
    return web_identity(file, role, variable("AWS_ROLE_SESSION_NAME"),
                        "AWS_WEB_IDENTITY_TOKEN_FILE");
  }

  [[nodiscard]] Found web_identity(const std::string& file, const std::string& role,
                                   const std::string& session, std::string source) const {
    WebIdentity identity{.token_file = file,
                         .role_arn = role,
                         .session_name = session.empty() ? "cairn" : session,
                         .endpoint = token_service()};
    return fetched([identity, around = around_,
                    policy = policy_] { return fetch_web_identity(identity, around, policy); },
                   std::move(source));
  }

  [[nodiscard]] std::string token_service() const {
    for (const char* name : {"AWS_ENDPOINT_URL_STS", "AWS_ENDPOINT_URL"}) {
      std::string url = variable(name);
      while (url.ends_with('/')) url.pop_back();
      if (!url.empty()) return url;
    }
    const std::string region = find_aws_endpoint(options_, around_).region;
    return "https://sts." + region + ".amazonaws.com" + (region.starts_with("cn-") ? ".cn" : "");
  }

  [[nodiscard]] Found of_profile() const {
    const AwsProfile profile = AwsProfile::load(options_, around_);
    if (profile.value("aws_access_key_id") || profile.value("aws_secret_access_key"))
      return keys_of_profile(profile);
    if (const auto file = profile.value("web_identity_token_file")) {
      const auto role = profile.value("role_arn");
      if (!role)
        invalid_argument(profile.where() + " has a web_identity_token_file, but no role_arn");
      return web_identity(*file, *role, profile.value("role_session_name").value_or(""),
                          profile.where());
    }
    if (const auto command = profile.value("credential_process"))
      return process_of_profile(profile, *command);
    refuse_other_kinds(profile);
    return nullptr;
  }

  // Read anew after the store has refused them: other programs replace the keys in the file.
  [[nodiscard]] Found keys_of_profile(const AwsProfile& profile) const {
    const auto read = [options = options_, around = around_] {
      const AwsProfile again = AwsProfile::load(options, around);
      AwsKeys keys{.access_key = again.value("aws_access_key_id").value_or(""),
                   .secret_key = again.value("aws_secret_access_key").value_or(""),
                   .session_token = again.value("aws_session_token").value_or("")};
      check_keys(keys);
      return keys;
    };
    with_context([&] { return profile.where(); }, read);
    return fetched(read, profile.where());
  }

  [[nodiscard]] Found process_of_profile(const AwsProfile& profile, const std::string& text) const {
    const auto command = words_of_command(text);
    if (!command || command->empty())
      invalid_argument(profile.where() + ": credential_process is not a command");
    return fetched(
        [command = *command, around = around_] { return parse_json_keys(around.run(command)); },
        "credential_process of " + profile.where());
  }

  static void refuse_other_kinds(const AwsProfile& profile) {
    const bool is_sso = profile.value("sso_session") || profile.value("sso_start_url");
    if (!is_sso && !profile.value("role_arn")) return;
    throw Error(Code::kUnimplemented,
                profile.where() + (is_sso ? " uses single sign-on" : " assumes a role") +
                    ", which Cairn cannot do; export its keys with `eval \"$(aws configure "
                    "export-credentials --profile " +
                    profile.name() + " --format env)\"`");
  }

  [[nodiscard]] Found of_container() const {
    const std::string relative = variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    ContainerEndpoint endpoint{.url = relative.empty()
                                          ? variable("AWS_CONTAINER_CREDENTIALS_FULL_URI")
                                          : "http://169.254.170.2" + relative,
                               .token_file = variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"),
                               .token = variable("AWS_CONTAINER_AUTHORIZATION_TOKEN")};
    if (endpoint.url.empty()) return nullptr;
    if (!relative.empty() && !relative.starts_with('/'))
      invalid_argument("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI does not begin with '/'");
    return fetched([endpoint, around = around_,
                    policy = policy_] { return fetch_container(endpoint, around, policy); },
                   "the container");
  }

  [[nodiscard]] Found of_instance() const {
    if (variable("AWS_EC2_METADATA_DISABLED") == "true") return nullptr;
    std::string endpoint = variable("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    while (endpoint.ends_with('/')) endpoint.pop_back();
    if (endpoint.empty())
      endpoint = variable("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE") == "IPv6"
                     ? "http://[fd00:ec2::254]"
                     : "http://169.254.169.254";
    return fetched([endpoint, around = around_] { return fetch_instance(endpoint, around); },
                   "the instance metadata");
  }

  const StoreOptions& options_;
  const Surroundings& around_;
  RetryPolicy policy_;
};

}  // namespace

std::shared_ptr<AwsCredentials> find_aws_credentials(const StoreOptions& options,
                                                     const Surroundings& surroundings,
                                                     RetryPolicy policy) {
  return Search(options, surroundings, std::move(policy)).find();
}

std::shared_ptr<AwsCredentials> find_aws_credentials(const StoreOptions& options,
                                                     const Surroundings& surroundings) {
  return find_aws_credentials(options, surroundings,
                              process_retry_policy(std::chrono::seconds(10)));
}

}  // namespace cairn::inline v0::object

// aws_access.cc -- {"type": "environment"} and the other kinds of aws_credentials.
#include <cairn/tensorstore_spec/aws_access.h>

#include <cairn/tensorstore_spec/members.h>

#include <optional>
#include <string>
#include <utility>

namespace cairn::inline v0::tensorstore_spec {
namespace {

using object::AwsSource;

// Makes a variable of the environment name a file.
void set_file(std::optional<std::string> path, const char* variable, AwsAccess& access) {
  if (!path) return;
  access.surroundings.environment = [before = access.surroundings.environment, path = *path,
                                     variable = std::string(variable)](const std::string& name) {
    return name == variable ? std::optional(path) : before(name);
  };
}

void use_profile(Members& members, AwsAccess& access) {
  access.surroundings.keys_from = AwsSource::kProfile;
  if (auto name = members.text("profile")) access.options.profile = *std::move(name);
  set_file(members.text("config_file"), "AWS_CONFIG_FILE", access);
  set_file(members.text("credentials_file"), "AWS_SHARED_CREDENTIALS_FILE", access);
}

// A spec that names the address could make Cairn send the token of the environment, or the text of
// a file, to any server.
void use_container(Members& members, AwsAccess& access) {
  access.surroundings.keys_from = AwsSource::kContainer;
  for (const char* name : {"endpoint", "auth_token_file"})
    if (members.take(name))
      refuse(members.pointer(name),
             "Cairn takes it from the environment alone: set "
             "AWS_CONTAINER_CREDENTIALS_FULL_URI and AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
             Code::kUnimplemented);
}

void use_type(const std::string& type, Members& members, AwsAccess& access) {
  if (type == "anonymous") {
    access.options.anonymous = true;
  } else if (type == "environment") {
    access.surroundings.keys_from = AwsSource::kEnvironment;
  } else if (type == "imds") {
    access.surroundings.keys_from = AwsSource::kInstance;
  } else if (type == "profile") {
    use_profile(members, access);
  } else if (type == "ecs") {
    use_container(members, access);
  } else if (type != "default") {
    refuse(members.pointer("type"),
           "expected \"default\", \"anonymous\", \"environment\", \"imds\", \"profile\" or "
           "\"ecs\"");
  }
}

}  // namespace

void apply_credentials(const Resource& credentials, AwsAccess& access) {
  if (!credentials.settings) return;
  Members members(*credentials.settings, credentials.pointer);
  const Json* type = members.take("type");
  if (!type || !type->as_string()) refuse(members.pointer("type"), "expected the type of the keys");
  use_type(*type->as_string(), members, access);
  members.finish();
}

}  // namespace cairn::inline v0::tensorstore_spec

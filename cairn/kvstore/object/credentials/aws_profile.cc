// aws_profile.cc -- finds the files and the sections of a profile.
#include <cairn/kvstore/object/credentials/aws_profile.h>

#include <cairn/base/errors.h>

namespace cairn::inline v0::object {
namespace {

// "": there is no such file.
std::string path_of_shared_file(const Surroundings& surroundings, const std::string& variable,
                                const std::string& usual) {
  const std::string home = surroundings.environment("HOME").value_or("");
  std::string path = surroundings.environment(variable).value_or("");
  if (path.empty()) path = "~/.aws/" + usual;
  if (!path.starts_with("~/")) return path;
  return home.empty() ? "" : home + path.substr(1);
}

IniFile read_shared_file(const Surroundings& surroundings, const std::string& variable,
                         const std::string& usual) {
  const std::string path = path_of_shared_file(surroundings, variable, usual);
  const auto text = path.empty() ? std::nullopt : surroundings.file(path);
  if (!text) return {};
  return with_context([&] { return path; }, [&] { return parse_ini(*text); });
}

// [default], [profile dev] or [profile "dev"] of the configuration file.
std::string config_section(const IniFile& config, const std::string& name) {
  for (const std::string& section : {"profile " + name, "profile \"" + name + "\""})
    if (config.contains(section)) return section;
  return name == "default" ? name : "profile " + name;
}

}  // namespace

AwsProfile AwsProfile::load(const StoreOptions& options, const Surroundings& surroundings) {
  AwsProfile profile;
  profile.name_ = options.profile;
  if (profile.name_.empty()) profile.name_ = surroundings.environment("AWS_PROFILE").value_or("");
  const bool was_given = !profile.name_.empty();
  if (!was_given) profile.name_ = "default";
  profile.credentials_ =
      read_shared_file(surroundings, "AWS_SHARED_CREDENTIALS_FILE", "credentials");
  profile.config_ = read_shared_file(surroundings, "AWS_CONFIG_FILE", "config");
  profile.section_ = config_section(profile.config_, profile.name_);
  if (was_given && profile.name_ != "default" && !profile.credentials_.contains(profile.name_) &&
      !profile.config_.contains(profile.section_))
    invalid_argument("no profile " + profile.name_ +
                     " in the shared configuration files (~/.aws/config, ~/.aws/credentials)");
  return profile;
}

std::optional<std::string> AwsProfile::value(std::string_view name) const {
  auto found = ini_value(credentials_, name_, name);
  return found ? found : ini_value(config_, section_, name);
}

std::optional<std::string> AwsProfile::service_value(std::string_view name) const {
  const auto services = value("services");
  return services ? ini_value(config_, "services " + *services, name) : std::nullopt;
}

}  // namespace cairn::inline v0::object

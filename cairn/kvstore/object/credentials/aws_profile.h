// aws_profile.h -- a profile of the shared configuration files of Amazon's tools.
#pragma once

#include <cairn/kvstore/object/credentials/credentials.h>
#include <cairn/kvstore/object/credentials/ini_file.h>

#include <optional>
#include <string>
#include <string_view>

namespace cairn::inline v0::object {

// The values of one profile: those of ~/.aws/credentials, then those of ~/.aws/config
// (AWS_SHARED_CREDENTIALS_FILE, AWS_CONFIG_FILE).
class AwsProfile {
 public:
  // The profile that StoreOptions::profile or AWS_PROFILE names, else "default". Throws
  // invalid_argument if a file is damaged, or has no profile of a name that was given.
  static AwsProfile load(const StoreOptions& options, const Surroundings& surroundings);

  [[nodiscard]] const std::string& name() const { return name_; }
  // "profile dev", for messages.
  [[nodiscard]] std::string where() const { return "profile " + name_; }
  // "s3.addressing_style" is the value of that name below "s3". nullopt: absent or empty.
  [[nodiscard]] std::optional<std::string> value(std::string_view name) const;
  // The value of a service in the section that `services` names.
  [[nodiscard]] std::optional<std::string> service_value(std::string_view name) const;

 private:
  std::string name_;
  IniFile credentials_;
  IniFile config_;
  std::string section_;  // of config_
};

}  // namespace cairn::inline v0::object

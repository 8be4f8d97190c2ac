// aws_fetch.h -- fetches temporary keys from the services of Amazon's machines.
#pragma once

#include <cairn/kvstore/object/credentials/credentials.h>
#include <cairn/kvstore/object/request/sender.h>

#include <optional>
#include <string>

namespace cairn::inline v0::object {

// A role that the bearer of a token may take (OpenID Connect, service accounts of Kubernetes).
struct WebIdentity {
  std::string token_file;
  std::string role_arn;
  std::string session_name;
  std::string endpoint;  // of the Security Token Service, without a final slash
};
// Asks the Security Token Service. Throws io.
AwsKeys fetch_web_identity(const WebIdentity& identity, const Surroundings& surroundings,
                           const RetryPolicy& policy);

// Where a container's keys are.
struct ContainerEndpoint {
  std::string url;
  std::string token_file;  // its text goes into the header Authorization; "": none
  std::string token;       // goes there as it is; "": none
};
// Throws invalid_argument for an http:// URL that leads off this machine, and io.
AwsKeys fetch_container(const ContainerEndpoint& endpoint, const Surroundings& surroundings,
                        const RetryPolicy& policy);

// Asks the metadata service of the machine (version 2), once and with short limits, because most
// machines have none. nullopt: there is no service, or the machine has no role. Throws io if the
// service answers with something else.
std::optional<AwsKeys> fetch_instance(const std::string& endpoint,
                                      const Surroundings& surroundings);

}  // namespace cairn::inline v0::object

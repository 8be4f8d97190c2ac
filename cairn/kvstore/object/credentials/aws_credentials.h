// aws_credentials.h -- finds the keys of an S3 account, and how to reach its buckets, as Amazon's
// own tools do.
#pragma once

#include <cairn/kvstore/object/credentials/credentials.h>
#include <cairn/kvstore/object/request/sender.h>

#include <memory>
#include <string>

namespace cairn::inline v0::object {

// The first of these that is configured:
//   1. StoreOptions: anonymous, credentials, profile
//   2. AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN
//   3. a role for a token: AWS_WEB_IDENTITY_TOKEN_FILE, AWS_ROLE_ARN, AWS_ROLE_SESSION_NAME
//   4. a profile of the shared files: keys, a token file and role, or credential_process
//   5. a container: AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or _FULL_URI
//   6. the metadata service of the machine, unless AWS_EC2_METADATA_DISABLED is "true"
//   7. none: requests go unsigned
// Surroundings::keys_from selects one of 2 and 4 to 6 instead.
// A source that is configured and fails is an error; the search does not go on. Only reads the
// environment and files: requests and programs wait for AwsCredentials::get(), which repeats them
// before the keys expire. `policy`: of these requests.
// Throws invalid_argument for half a configuration, a damaged file or a selected source that is not
// configured, and unimplemented for
// profiles of single sign-on and assumed roles, with the command that exports their keys.
std::shared_ptr<AwsCredentials> find_aws_credentials(const StoreOptions& options,
                                                     const Surroundings& surroundings,
                                                     RetryPolicy policy);
// With this process's clock and random numbers, for ten seconds.
std::shared_ptr<AwsCredentials> find_aws_credentials(const StoreOptions& options,
                                                     const Surroundings& surroundings);

// How to reach buckets.
struct AwsEndpoint {
  std::string endpoint;     // "http://localhost:9000"; "": Amazon's own of the region
  std::string region;       // "us-east-1" if nothing names one
  bool path_style = false;  // http://endpoint/bucket/key
  std::string ca_file;      // certificates to trust; "": those of the system
};
// From StoreOptions, else AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, AWS_REGION, AWS_DEFAULT_REGION,
// AWS_CA_BUNDLE, else the profile's endpoint_url (also that of its services), region, ca_bundle and
// s3.addressing_style. AWS_IGNORE_CONFIGURED_ENDPOINT_URLS=true: the endpoint of StoreOptions
// alone. Throws invalid_argument; no message holds the value.
AwsEndpoint find_aws_endpoint(const StoreOptions& options, const Surroundings& surroundings);

}  // namespace cairn::inline v0::object

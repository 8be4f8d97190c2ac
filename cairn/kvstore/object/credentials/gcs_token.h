// gcs_token.h -- bearer tokens for Google Cloud Storage: found as Google's own tools find them, and
// fetched again before they expire.
#pragma once

#include <cairn/kvstore/object/credentials/credentials.h>
#include <cairn/kvstore/object/credentials/jwt.h>
#include <cairn/kvstore/object/request/sender.h>
#include <cairn/storage/store_options.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace cairn::inline v0::object {

// A credentials file of Google, in JSON.
struct GoogleCredentials {
  std::string token_url;  // the service that makes tokens
  // "type": "service_account"
  std::string account = {};  // client_email; "": this is an authorized user
  JwtKey key = {};
  // "type": "authorized_user"
  std::string client_id = {};
  std::string client_secret = {};
  std::string refresh_token = {};
};
// Throws invalid_argument for a file that is damaged or incomplete, unimplemented for another type
// (external_account, ...), which the message names. Messages hold no value of the file but that.
GoogleCredentials parse_google_credentials(std::string_view json);

// What a token service answers: {"access_token": "...", "expires_in": 3599}
struct TokenReply {
  std::string token;
  std::int64_t lasts_s = 0;
};
// Throws data_loss.
TokenReply parse_token_reply(std::string_view json);

// Signs requests with a token. The first of these that exist is used:
//   1. StoreOptions::credentials (bearer_token), or none if StoreOptions::anonymous
//   2. the file that GOOGLE_APPLICATION_CREDENTIALS names
//   3. gcloud's file: application_default_credentials.json in $CLOUDSDK_CONFIG or ~/.config/gcloud
//   4. the metadata server of Google's machines ($GCE_METADATA_HOST)
// Without any, requests go unsigned. 2 to 4 are used for https:// endpoints alone: a token must not
// cross a network in clear text. Nothing is asked for before the first request. `policy`: of the
// requests to token services. Null: no request is to be signed.
std::shared_ptr<Signer> find_gcs_signer(const StoreOptions& options, std::string_view endpoint,
                                        const Surroundings& surroundings, RetryPolicy policy);

// Where the token of find_gcs_signer() comes from, for messages: "anonymous access", a path, "the
// metadata server", which is not asked, ... No secret. "": requests go unsigned. Throws as
// find_gcs_signer().
std::string gcs_token_source(const StoreOptions& options, std::string_view endpoint,
                             const Surroundings& surroundings);

}  // namespace cairn::inline v0::object

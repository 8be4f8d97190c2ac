// aws_keys.h -- keys as the services and programs that make them write them.
#pragma once

#include <cairn/kvstore/object/credentials/credentials.h>

#include <string_view>

namespace cairn::inline v0::object {

// {"AccessKeyId": "...", "SecretAccessKey": "...", "Token": "...", "Expiration": "2026-..Z"}: from
// containers and instance metadata. Programs write "SessionToken". Throws data_loss; no message
// holds a value.
AwsKeys parse_json_keys(std::string_view text);
// <AssumeRoleWithWebIdentityResponse>: from the Security Token Service. Throws data_loss.
AwsKeys parse_sts_keys(std::string_view text);
// Throws invalid_argument if a key is empty or cannot stand in a header.
void check_keys(const AwsKeys& keys);

}  // namespace cairn::inline v0::object

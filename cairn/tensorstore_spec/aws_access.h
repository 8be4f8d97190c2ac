// aws_access.h -- the keys that a spec of the driver s3 asks for.
#pragma once

#include <cairn/kvstore/object/credentials/credentials.h>
#include <cairn/storage/store_options.h>
#include <cairn/tensorstore_spec/scope.h>

namespace cairn::inline v0::tensorstore_spec {

// How a store of S3 is reached.
struct AwsAccess {
  StoreOptions options;
  object::Surroundings surroundings;
};

// Applies "aws_credentials" of the spec to the options of the caller. The type "default" leaves
// them as they are; any other type is the only source of keys, unless the caller's options are
// anonymous.
void apply_credentials(const Resource& credentials, AwsAccess& access);

}  // namespace cairn::inline v0::tensorstore_spec

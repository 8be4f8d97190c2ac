// s3_source.h -- opens an object in one version.
#pragma once

#include <cairn/io/tree/range_source.h>
#include <cairn/kvstore/object/s3/s3_client.h>

#include <memory>
#include <string>
#include <string_view>

namespace cairn::inline v0::object {

// Null: there is no such object. Throws unavailable if `version` is given and is not stored.
// `name` is for messages.
std::shared_ptr<const RangeSource> open_s3_source(std::shared_ptr<S3Client> client,
                                                  const std::string& key, std::string_view version,
                                                  std::string name);
// The version of a value that a listing names; its key is the object's. Sends no request.
std::shared_ptr<const RangeSource> open_s3_version(std::shared_ptr<S3Client> client,
                                                   StoredValue value, std::string name);

}  // namespace cairn::inline v0::object

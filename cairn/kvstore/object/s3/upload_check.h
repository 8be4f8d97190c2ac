// upload_check.h -- checksums that travel with an upload, so that the store can tell damage.
#pragma once

#include <cairn/kvstore/object/s3/s3_dialect.h>
#include <cairn/kvstore/object/transport/http.h>

#include <span>
#include <string>

namespace cairn::inline v0::object {

// CRC-32C of the parts, big-endian in base64.
std::string crc32c_text(std::span<const ByteView> parts);
// MD5 of the parts in base64.
std::string md5_text(std::span<const ByteView> parts);
// Adds the header of a check. Where OpenSSL refuses MD5 (FIPS), MD5 becomes CRC-32C.
void add_upload_check(HttpRequest& request, std::span<const ByteView> parts, UploadCheck check);

// Whether the store refuses the header of a check, not the bytes: an older or weaker check may
// work.
bool refuses_check(const HttpResponse& response);
// Whether the store says that the bytes arrived damaged.
bool says_damaged(const HttpResponse& response);
// The next weaker check.
UploadCheck weaker(UploadCheck check);

}  // namespace cairn::inline v0::object

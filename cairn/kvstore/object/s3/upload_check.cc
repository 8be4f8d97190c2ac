// upload_check.cc -- checksums of uploads.
#include <cairn/kvstore/object/s3/upload_check.h>

#include <cairn/base/base64.h>
#include <cairn/base/checksum.h>
#include <cairn/error.h>
#include <cairn/kvstore/object/request/store_error.h>
#include <cairn/kvstore/object/transport/crypto.h>

#include <array>

namespace cairn::inline v0::object {

std::string crc32c_text(std::span<const ByteView> parts) {
  std::uint32_t crc = crc32c({});
  for (const ByteView part : parts) crc = crc32c_extend(crc, part);
  std::array<std::byte, 4> bytes{};
  for (std::size_t i = 0; i < 4; ++i) bytes[i] = static_cast<std::byte>(crc >> (24 - 8 * i));
  return encode_base64(bytes, Base64::kStandard);
}

std::string md5_text(std::span<const ByteView> parts) {
  return encode_base64(md5(parts), Base64::kStandard);
}

void add_upload_check(HttpRequest& request, std::span<const ByteView> parts, UploadCheck check) {
  if (check == UploadCheck::kMd5) {
    try {
      request.headers.add("content-md5", md5_text(parts));
      return;
    } catch (const Error& e) {
      if (e.code() != Code::kUnimplemented) throw;
    }
  }
  if (check != UploadCheck::kNone) request.headers.add("x-amz-checksum-crc32c", crc32c_text(parts));
}

bool refuses_check(const HttpResponse& response) {
  if (response.status == 501) return true;
  const std::string code = error_reply_of(response).code;
  return response.status == 400 && (code == "InvalidRequest" || code == "InvalidArgument" ||
                                    code == "NotImplemented" || code == "UnsupportedArgument");
}

bool says_damaged(const HttpResponse& response) {
  const std::string code = error_reply_of(response).code;
  return code == "BadDigest" || code == "XAmzContentSHA256Mismatch" ||
         code == "XAmzContentChecksumMismatch" || code == "IncompleteBody";
}

UploadCheck weaker(UploadCheck check) {
  return check == UploadCheck::kCrc32c ? UploadCheck::kMd5 : UploadCheck::kNone;
}

}  // namespace cairn::inline v0::object

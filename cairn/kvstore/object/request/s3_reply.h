// s3_reply.h -- the XML documents with which S3 answers. All functions throw data_loss for a
// document that is not what it should be.
#pragma once

#include <cairn/storage/kvstore.h>

#include <string>
#include <string_view>
#include <vector>

namespace cairn::inline v0::object {

// One page of ListObjectsV2 with encoding-type=url. Keys are decoded.
struct ListPage {
  std::vector<StoredValue> values;
  std::vector<std::string> folders;  // the common prefixes
  std::string next;                  // asks for the next page; "": this is the last one
};
ListPage parse_list_page(std::string_view xml);

// The id of InitiateMultipartUpload.
std::string parse_upload_id(std::string_view xml);

// What CompleteMultipartUpload and CopyObject put into a 200. They find some errors after they
// have sent the status.
struct ObjectResult {
  std::string version;  // the ETag; "" if there is none
  std::string error;    // the code of an <Error>; "": success
};
ObjectResult parse_object_result(std::string_view xml);

// The keys that DeleteObjects could not remove.
struct DeleteFailure {
  std::string key;
  std::string code;
};
std::vector<DeleteFailure> parse_delete_result(std::string_view xml);

// One page of ListMultipartUploads with encoding-type=url.
struct OpenUpload {
  std::string key;
  std::string id;
  std::int64_t started_ns = 0;  // nanoseconds since 1970; 0 if the store does not say
};
struct UploadPage {
  std::vector<OpenUpload> uploads;
  std::string next_key, next_id;  // ask for the next page; "": this is the last one
};
UploadPage parse_upload_page(std::string_view xml);

}  // namespace cairn::inline v0::object

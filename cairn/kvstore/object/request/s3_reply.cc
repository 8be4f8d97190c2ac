// s3_reply.cc -- answers of S3.
#include <cairn/kvstore/object/request/s3_reply.h>

#include <cairn/base/errors.h>
#include <cairn/kvstore/object/request/content_range.h>
#include <cairn/kvstore/object/request/percent.h>
#include <cairn/kvstore/object/request/store_time.h>
#include <cairn/kvstore/object/request/xml.h>

#include <utility>

namespace cairn::inline v0::object {
namespace {

XmlElement document_of(std::string_view xml, std::string_view root) {
  XmlElement document = parse_xml(xml);
  if (document.name != root)
    data_loss("the answer is <" + document.name + ">, not <" + std::string(root) + ">");
  return document;
}

const XmlElement& child_of(const XmlElement& parent, std::string_view name) {
  const XmlElement* child = parent.find(name);
  if (child == nullptr)
    data_loss("the answer's <" + parent.name + "> has no <" + std::string(name) + ">");
  return *child;
}

// SeaweedFS encodes a space as "+".
std::string decoded_key(std::string_view text, bool is_encoded) {
  if (!is_encoded) return std::string(text);
  auto key = percent_decoded_text(text, true);
  if (!key) data_loss("a key of the answer is not percent-encoded");
  return std::move(*key);
}

bool is_url_encoded(const XmlElement& document) {
  return document.text_of("EncodingType") == "url";
}

bool is_truncated(const XmlElement& document) {
  const std::string_view text = document.text_of("IsTruncated");
  if (text != "true" && text != "false")
    data_loss("the answer's <IsTruncated> is not a truth value");
  return text == "true";
}

StoredValue value_of(const XmlElement& contents, bool is_encoded) {
  const auto size = parse_size(child_of(contents, "Size").text);
  if (!size) data_loss("a size of the answer is not a number");
  return {.key = decoded_key(child_of(contents, "Key").text, is_encoded),
          .size = *size,
          .version = std::string(contents.text_of("ETag")),
          .modified_ns = ns_of_iso_time(contents.text_of("LastModified"))};
}

OpenUpload upload_of(const XmlElement& upload, bool is_encoded) {
  return {.key = decoded_key(child_of(upload, "Key").text, is_encoded),
          .id = child_of(upload, "UploadId").text,
          .started_ns = ns_of_iso_time(upload.text_of("Initiated"))};
}

// The text of an element that a next page needs.
std::string next_mark(const XmlElement& document, std::string_view name) {
  std::string text = child_of(document, name).text;
  if (text.empty()) data_loss("the answer's <" + std::string(name) + "> is empty");
  return text;
}

}  // namespace

ListPage parse_list_page(std::string_view xml) {
  const XmlElement document = document_of(xml, "ListBucketResult");
  const bool is_encoded = is_url_encoded(document);
  ListPage page;
  for (const XmlElement& each : document.children) {
    if (each.name == "Contents") page.values.push_back(value_of(each, is_encoded));
    if (each.name == "CommonPrefixes")
      page.folders.push_back(decoded_key(child_of(each, "Prefix").text, is_encoded));
  }
  if (is_truncated(document)) page.next = next_mark(document, "NextContinuationToken");
  return page;
}

std::string parse_upload_id(std::string_view xml) {
  return next_mark(document_of(xml, "InitiateMultipartUploadResult"), "UploadId");
}

ObjectResult parse_object_result(std::string_view xml) {
  const XmlElement document = parse_xml(xml, {.max_elements = 1000});
  if (document.name == "Error") {
    const std::string_view code = document.text_of("Code");
    return {.version = {}, .error = code.empty() ? "Error" : std::string(code)};
  }
  if (document.name != "CompleteMultipartUploadResult" && document.name != "CopyObjectResult")
    data_loss("the answer is <" + document.name + ">, not the result of a write");
  return {.version = std::string(document.text_of("ETag")), .error = {}};
}

std::vector<DeleteFailure> parse_delete_result(std::string_view xml) {
  const XmlElement document = document_of(xml, "DeleteResult");
  std::vector<DeleteFailure> failures;
  for (const XmlElement& each : document.children)
    if (each.name == "Error")
      failures.push_back({std::string(each.text_of("Key")), std::string(each.text_of("Code"))});
  return failures;
}

UploadPage parse_upload_page(std::string_view xml) {
  const XmlElement document = document_of(xml, "ListMultipartUploadsResult");
  const bool is_encoded = is_url_encoded(document);
  UploadPage page;
  for (const XmlElement& each : document.children)
    if (each.name == "Upload") page.uploads.push_back(upload_of(each, is_encoded));
  if (!is_truncated(document)) return page;
  page.next_key = decoded_key(next_mark(document, "NextKeyMarker"), is_encoded);
  page.next_id = std::string(document.text_of("NextUploadIdMarker"));
  return page;
}

}  // namespace cairn::inline v0::object

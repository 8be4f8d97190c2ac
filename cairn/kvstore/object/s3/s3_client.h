// s3_client.h -- the calls of S3's API on one bucket, one method each. Keys are whole. All methods
// throw as store_error.h says, and not_found for a bucket that does not exist. Safe to use from
// many threads.
#pragma once

#include <cairn/kvstore/object/request/s3_reply.h>
#include <cairn/kvstore/object/request/sender.h>
#include <cairn/kvstore/object/s3/s3_address.h>
#include <cairn/kvstore/object/s3/s3_dialect.h>
#include <cairn/storage/kvstore.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::inline v0::object {

// What S3 tells about an object.
struct ObjectHead {
  std::uint64_t size = 0;        // bytes, of the whole object
  std::string version;           // the ETag, with its quotes
  std::int64_t modified_ns = 0;  // nanoseconds since 1970; 0 if the store does not say
  std::string save_id;           // x-amz-meta-cairn-save; "": none
};

// Which bytes to read, and where to.
struct S3Read {
  std::string_view key;
  std::string_view version = {};               // "": any
  std::optional<ByteRange> range = {};         // nullopt: the whole object, without a Range header
  std::span<const MutableByteView> into = {};  // if given: as many bytes as the range has
  // Of the body, in bytes. A longer one is data_loss.
  std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
};

struct S3Got {
  ObjectHead head;
  Bytes body;  // empty if the bytes went into memory of the caller
};

struct S3Write {
  std::string_view key;
  std::span<const ByteView> parts;
  bool if_absent = false;       // only if there is no such object
  std::string if_version = {};  // only if the object has this ETag
  std::string save_id = {};     // stored beside the object
};

struct S3Written {
  bool is_stored = false;     // false: the condition does not hold
  bool was_repeated = false;  // an earlier try may have stored it
  std::string version;        // the ETag
};

// One part of a multipart upload.
struct S3Part {
  std::string version;   // the ETag
  std::string checksum;  // CRC-32C in base64; "": none was sent
};

// What the clients of one endpoint share.
struct S3Connection {
  std::shared_ptr<HttpTransport> transport;
  RetryPolicy policy;
  HttpLimits limits;
  std::shared_ptr<StoreStats> stats;
  std::shared_ptr<S3Dialect> dialect;
};

class S3Client {
 public:
  S3Client(S3Address address, std::shared_ptr<S3Signer> signer, const S3Connection& connection);

  // HEAD. nullopt: there is no such object.
  std::optional<ObjectHead> head(std::string_view key);
  // GET. nullopt: there is no such object. Throws unavailable if `version` is given and is not
  // stored any more, out_of_range if the store refuses the range, WrongAnswer if it answers twice
  // with another part than the one asked for, data_loss if the bytes differ twice from their
  // checksum.
  std::optional<S3Got> get(const S3Read& read);
  // ListObjectsV2: one page. `next`: that of the page before.
  ListPage list(std::string_view prefix, std::string_view delimiter, const std::string& next);
  // PUT.
  S3Written put(const S3Write& write);
  // DELETE. Does nothing for an absent key.
  void remove(std::string_view key);
  // DeleteObjects, 1000 keys at a time.
  void remove_all(std::span<const std::string> keys);
  // CopyObject. False: the key is absent, or the store cannot.
  bool copy(std::string_view from, std::string_view to);

  // CreateMultipartUpload. Returns the upload's id.
  std::string begin_upload(std::string_view key);
  // UploadPart; numbers begin with 1.
  S3Part put_part(std::string_view key, const std::string& id, std::size_t number, ByteView bytes);
  // CompleteMultipartUpload. `size`: of all parts, to tell a lost answer from a failure.
  void complete(std::string_view key, const std::string& id, const std::vector<S3Part>& parts,
                std::uint64_t size);
  // AbortMultipartUpload. Tries for five seconds: it is called when something else has failed.
  void abort(std::string_view key, const std::string& id);
  // ListMultipartUploads, all pages.
  std::vector<OpenUpload> uploads(std::string_view prefix);

  [[nodiscard]] const std::string& bucket() const { return address_.bucket; }
  [[nodiscard]] S3Dialect& dialect() { return *connection_.dialect; }

 private:
  using Make = std::function<HttpRequest()>;

  // Sends, and once more if the answer names another region.
  Answer ask(const RequestFacts& facts, const Make& make);
  [[nodiscard]] HttpRequest request(std::string method, std::string_view key,
                                    const Query& query = {}) const;
  [[nodiscard]] HttpRequest read_request(const S3Read& read) const;
  // Sets the range to that of the last try.
  Answer send_read(S3Read& read);
  // Throws the error of an answer; a missing bucket is not_found.
  [[noreturn]] static void refuse(const Make& make, const HttpResponse& response);
  void explain_refusal(std::string_view key, int status);
  // Whether a 404 means that the object is absent. Throws if it is the bucket.
  bool is_absent(const Make& make, const HttpResponse& response);
  void check_bucket();
  // Whether an upload has become an object of that size.
  bool is_complete(std::string_view key, std::size_t parts, std::uint64_t size);
  S3Written put_checked(const S3Write& write, UploadCheck check, bool& is_refused);
  void remove_batch(std::span<const std::string> keys);

  S3Address address_;
  std::shared_ptr<S3Signer> signer_;
  S3Connection connection_;
  Sender sender_;
  std::atomic<bool> has_seen_bucket_{false};
};

}  // namespace cairn::inline v0::object

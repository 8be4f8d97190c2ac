// s3_upload.h -- S3Upload, an object that is written from front to back.
#pragma once

#include <cairn/base/memory/raw_bytes.h>
#include <cairn/kvstore/object/s3/part_queue.h>
#include <cairn/kvstore/object/s3/s3_client.h>
#include <cairn/kvstore/upload_memory.h>
#include <cairn/storage/kvstore.h>

#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <string_view>

namespace cairn::inline v0::object {

// Parts in memory unless limit_memory() says otherwise, and at most.
inline constexpr std::size_t kUsualParts = 5;
inline constexpr std::size_t kMostPartsHeld = 17;

// Up to one part becomes one PUT at the commit. More becomes a multipart upload with equal parts:
// one fills while others are sent.
class S3Upload : public UploadAppender {
 public:
  // `name` is for messages. `part_size`: bytes; S3 wants at least 5 MiB.
  S3Upload(std::shared_ptr<S3Client> client, std::string key, std::string name,
           std::size_t part_size = kUploadPart);
  // Stops the parts of an upload that is not committed, waits for them, and aborts it.
  ~S3Upload() override;

  void limit_memory(std::uint64_t bytes) override;

  // Throws the error of a part that could not be sent.
  void append(std::span<const ByteView> parts) override;
  [[nodiscard]] std::uint64_t size() const override { return size_; }
  void commit() override;

 private:
  void check_open(std::string_view what) const;
  void add(ByteView bytes);
  void begin();
  void send_part();
  void abort() noexcept;

  std::shared_ptr<S3Client> client_;
  std::string key_;
  std::string name_;
  std::size_t part_size_;
  std::size_t most_sent_ = kUsualParts - 1;  // parts on their way
  std::uint64_t size_ = 0;
  RawBytes filling_;
  std::shared_future<std::string> id_;  // without a state: no upload has begun
  std::unique_ptr<PartQueue> parts_;    // null: as id_
  bool is_committed_ = false;
};

}  // namespace cairn::inline v0::object

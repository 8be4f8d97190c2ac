// s3_dialect.h -- what an S3 endpoint turned out to understand. Learned from refusals, kept for all
// clients of the endpoint.
#pragma once

#include <atomic>
#include <cstdint>

namespace cairn::inline v0::object {

// How the store checks that the bytes of an upload arrived whole.
enum class UploadCheck : std::uint8_t { kCrc32c, kMd5, kNone };

struct S3Dialect {
  std::atomic<UploadCheck> check{UploadCheck::kCrc32c};
  // False: If-Match of a PUT takes an ETag without its quotes (Ceph's radosgw 16).
  std::atomic<bool> quotes_if_match{true};
  std::atomic<bool> has_batch_delete{true};
  // True once a second create of a key was refused. Some stores ignore If-None-Match.
  std::atomic<bool> refuses_second_create{false};
};

}  // namespace cairn::inline v0::object

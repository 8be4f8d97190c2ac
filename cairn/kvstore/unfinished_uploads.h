// unfinished_uploads.h -- the uploads of many parts that writers have begun and not ended. Nobody
// sees such a value, but its parts take space until somebody ends the upload.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cairn::inline v0 {

struct UnfinishedUpload {
  std::string key;
  std::string id;
  std::int64_t started_ns = 0;  // nanoseconds since 1970; 0 if the store does not say
};

// A store that keeps them. Others derive from KvStore alone.
class UploadKeeper {
 public:
  virtual ~UploadKeeper() = default;
  // Those whose keys start with `prefix`, sorted by key. A writer may still be working on them.
  [[nodiscard]] virtual std::vector<UnfinishedUpload> unfinished_uploads(
      const std::string& prefix) const = 0;
  // Discards the parts. Does nothing if the upload has ended.
  virtual void discard_upload(const UnfinishedUpload& upload) = 0;
};

}  // namespace cairn::inline v0

// s3_source.cc -- one version of an object, read in ranges.
#include <cairn/kvstore/object/s3/s3_source.h>

#include <cairn/kvstore/object/object_source.h>

#include <utility>

namespace cairn::inline v0::object {

std::shared_ptr<const RangeSource> open_s3_source(std::shared_ptr<S3Client> client,
                                                  const std::string& key, std::string_view version,
                                                  std::string name) {
  auto head = client->head(key);
  if (!head && version.empty()) return nullptr;
  if (!head || (!version.empty() && head->version != version))
    throw Error(Code::kUnavailable, "was replaced or removed while Cairn read it; open it again");
  return open_s3_version(std::move(client),
                         {.key = key,
                          .size = head->size,
                          .version = std::move(head->version),
                          .modified_ns = head->modified_ns},
                         std::move(name));
}

std::shared_ptr<const RangeSource> open_s3_version(std::shared_ptr<S3Client> client,
                                                   StoredValue value, std::string name) {
  const auto fetch = [client = std::move(client), key = value.key](
                         std::uint64_t offset, std::span<const MutableByteView> parts,
                         const std::string& pinned) {
    std::uint64_t length = 0;
    for (const MutableByteView part : parts) length += part.size();
    (void)client->get(
        {.key = key, .version = pinned, .range = ByteRange{offset, length}, .into = parts});
  };
  return std::make_shared<ObjectSource>(std::move(value), std::move(name), fetch);
}

}  // namespace cairn::inline v0::object

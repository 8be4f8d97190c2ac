// s3_store.h -- S3Store, the objects of a bucket below a prefix as a KvStore.
#pragma once

#include <cairn/kvstore/object/object_store.h>
#include <cairn/kvstore/object/s3/s3_client.h>
#include <cairn/kvstore/unfinished_uploads.h>

#include <functional>
#include <memory>
#include <string>

namespace cairn::inline v0::object {

// Keys are those that a folder could hold (url.h). Listings leave out objects with other names.
class S3Store : public ObjectStore, public UploadKeeper {
 public:
  // `prefix`: "" or a key. `new_id` draws an id for each conditional write, other than any before.
  S3Store(std::shared_ptr<S3Client> client, const std::string& prefix,
          std::function<std::string()> new_id);

  std::optional<Bytes> read(std::string_view key, ByteRange range) const override;
  std::optional<Bytes> read_at_most(std::string_view key, std::uint64_t most) const override;
  bool read_into(std::string_view key, std::uint64_t offset, MutableByteView out) const override;
  std::optional<std::uint64_t> size(std::string_view key) const override;
  StoreListing list_level(std::string_view prefix) const override;
  // The store's own order decides which values are the first.
  StoreListing list_values(std::string_view prefix, std::size_t most) const override;
  std::shared_ptr<const RangeSource> open(std::string_view key,
                                          std::string_view version) const override;
  std::shared_ptr<const RangeSource> open_listed(const StoredValue& value) const override;
  void write(std::string_view key, ByteView value) override;
  void remove(std::string_view key) override;
  void remove_all(const std::vector<std::string>& keys) override;
  bool copy(std::string_view from, std::string_view to) override;
  // Throws unimplemented for a store that ignores the condition of a create; the value is stored
  // then. If the answer to a write is lost, an id beside the object tells whose it is. A value that
  // a third writer has replaced meanwhile counts as not written.
  bool replace_if(std::string_view key, std::optional<ByteView> expected, ByteView value) override;
  std::unique_ptr<Appender> append(std::string_view key) override;
  std::vector<UnfinishedUpload> unfinished_uploads(const std::string& prefix) const override;
  void discard_upload(const UnfinishedUpload& upload) override;
  // "s3://bucket/prefix/key"
  std::string describe(std::string_view key) const override;

 private:
  // The whole key. Throws invalid_argument for one that cannot be.
  [[nodiscard]] std::string full_key(std::string_view key) const;
  [[nodiscard]] StoreListing list_pages(std::string_view prefix, std::string_view delimiter,
                                        std::size_t most) const;
  void add_page(ListPage page, const std::string& prefix, StoreListing& listing) const;
  bool create(const std::string& key, ByteView value);
  void check_creates(const S3Write& write);
  bool replace(const std::string& key, const std::string& version, ByteView value);

  std::shared_ptr<S3Client> client_;
  std::string prefix_;  // "" or with a '/' at its end
  std::function<std::string()> new_id_;
};

}  // namespace cairn::inline v0::object

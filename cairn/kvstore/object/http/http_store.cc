// http_store.cc -- each function opens the value, which pins its version, and reads from that.
#include <cairn/kvstore/object/http/http_store.h>

#include <cairn/kvstore/object/object_source.h>
#include <cairn/kvstore/object/object_store.h>
#include <cairn/kvstore/object/request/percent.h>
#include <cairn/kvstore/object/request/url.h>
#include <cairn/kvstore/range.h>

#include <algorithm>
#include <utility>

namespace cairn::inline v0::object {
namespace {

// Memory grows with the bytes that arrive: the size is only what the server says.
Bytes bytes_of_source(const RangeSource& source, std::uint64_t offset, std::uint64_t length) {
  constexpr std::uint64_t kPiece = std::uint64_t{16} << 20U;
  Bytes bytes;
  while (bytes.size() < length) {
    const std::uint64_t begin = bytes.size();
    bytes.resize(begin + std::min(kPiece, length - begin));
    source.read_into(offset + begin, MutableByteView(bytes).subspan(begin));
  }
  return bytes;
}

class HttpStore : public ObjectStore {
 public:
  HttpStore(std::string root, std::shared_ptr<HttpClient> client)
      : root_(std::move(root)), client_(std::move(client)) {}

  std::optional<Bytes> read(std::string_view key, ByteRange range) const override {
    const auto source = open(key, "");
    if (!source) return std::nullopt;
    return with_context(
        [&] { return describe(key); },
        [&] { return bytes_of_source(*source, range.offset, length_in(range, source->size())); });
  }
  std::optional<Bytes> read_at_most(std::string_view key, std::uint64_t most) const override {
    const auto source = open(key, "");
    if (!source) return std::nullopt;
    return with_context([&] { return describe(key); },
                        [&] {
                          check_at_most(source->size(), most);
                          return bytes_of_source(*source, 0, source->size());
                        });
  }
  bool read_into(std::string_view key, std::uint64_t offset, MutableByteView out) const override {
    const auto source = open(key, "");
    if (source) source->read_into(offset, out);
    return source != nullptr;
  }
  std::optional<std::uint64_t> size(std::string_view key) const override {
    check_object_key(key);
    return with_context([&] { return describe(key); }, [&] { return client_->size(url_of(key)); });
  }

  StoreListing list_level(std::string_view /*prefix*/) const override { fail_listing(); }
  StoreListing list_values(std::string_view /*prefix*/, std::size_t /*most*/) const override {
    fail_listing();
  }

  std::shared_ptr<const RangeSource> open(std::string_view key,
                                          std::string_view version) const override {
    check_object_key(key);
    const std::string url = url_of(key);
    auto file = with_context([&] { return describe(key); },
                             [&] { return client_->open(url, std::string(version)); });
    if (!file) return nullptr;
    const StoredValue value = file->value;
    const auto fetch = [client = client_, url, value](std::uint64_t offset,
                                                      std::span<const MutableByteView> parts,
                                                      const std::string& /*version*/) {
      client->read(url, value, offset, parts);
    };
    return std::make_shared<ObjectSource>(value, describe(key), fetch, std::move(file->beginning));
  }

  void write(std::string_view key, ByteView /*value*/) override { fail_write(key); }
  void remove(std::string_view key) override { fail_write(key); }
  std::string describe(std::string_view key) const override {
    return root_ + "/" + std::string(key);
  }

 private:
  [[nodiscard]] std::string url_of(std::string_view key) const {
    return root_ + "/" + percent_encoded(key, Slash::kKept);
  }
  [[noreturn]] void fail_listing() const {
    throw Error(Code::kUnimplemented,
                root_ +
                    ": a web server does not list its files; give the URL of a checkpoint or "
                    "of a file");
  }
  [[noreturn]] void fail_write(std::string_view key) const {
    check_object_key(key);
    throw Error(Code::kUnimplemented, describe(key) + ": http:// and https:// are read-only");
  }

  std::string root_;
  std::shared_ptr<HttpClient> client_;
};

}  // namespace

StorePtr make_http_store(std::string root, std::shared_ptr<HttpClient> client) {
  return std::make_shared<HttpStore>(std::move(root), std::move(client));
}

}  // namespace cairn::inline v0::object

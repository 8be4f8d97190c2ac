#include <cairn/kvstore/object/gcs/gcs_store.h>

#include <cairn/base/errors.h>
#include <cairn/base/executor.h>
#include <cairn/base/text.h>
#include <cairn/base/utf8.h>
#include <cairn/kvstore/object/gcs/gcs_upload.h>
#include <cairn/kvstore/object/object_source.h>
#include <cairn/kvstore/object/object_store.h>
#include <cairn/kvstore/object/request/listing_limits.h>
#include <cairn/kvstore/object/request/store_error.h>
#include <cairn/kvstore/object/request/url.h>
#include <cairn/kvstore/range.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

namespace cairn::inline v0::object {
namespace {

constexpr std::size_t kKeysOfPage = 1000;  // the most that the service returns
constexpr std::size_t kMostRemovalsAtOnce = 16;
constexpr std::uint64_t kMostSize = std::numeric_limits<std::int64_t>::max();

// Whether the service can have names with this prefix.
bool can_begin_names(std::string_view prefix) {
  return prefix.size() <= kMostGcsName && prefix.find('\0') == std::string_view::npos &&
         valid_utf8(prefix);
}

// Whether a range has an end that an object can have: the sum does not overflow.
bool is_possible(const ByteRange& range) {
  return range.offset <= kMostSize && range.length.value_or(0) <= kMostSize - range.offset;
}

StoredValue stored_value(GcsObject object) {
  return {.key = std::move(object.name),
          .size = object.size,
          .version = std::to_string(object.generation),
          .modified_ns = object.modified_ns};
}

// The number that stored_value() has made a text of.
std::uint64_t parse_generation(std::string_view version) {
  std::uint64_t generation = 0;
  const char* const end = version.data() + version.size();
  if (std::from_chars(version.data(), end, generation).ptr != end)
    throw Error(Code::kInvalidArgument, "a version of an object on gs:// is a number");
  return generation;
}

class GcsStore : public ObjectStore {
 public:
  explicit GcsStore(std::shared_ptr<const GcsClient> client) : client_(std::move(client)) {}

  std::optional<Bytes> read(std::string_view key, ByteRange range) const override {
    return on_key(key, [&] { return read_range(key, range); });
  }
  std::optional<Bytes> read_at_most(std::string_view key, std::uint64_t most) const override {
    return on_key(key, [&] { return read_whole(key, most); });
  }
  bool read_into(std::string_view key, std::uint64_t offset, MutableByteView out) const override {
    return on_key(key, [&] { return fill(key, offset, out); });
  }
  std::optional<std::uint64_t> size(std::string_view key) const override {
    return on_key(key, [&]() -> std::optional<std::uint64_t> {
      const auto object = client_->find(key);
      return object ? std::optional(object->size) : std::nullopt;
    });
  }
  StoreListing list_level(std::string_view prefix) const override {
    return list_pages({.prefix = prefix, .one_level = true},
                      std::numeric_limits<std::size_t>::max());
  }
  StoreListing list_values(std::string_view prefix, std::size_t most) const override {
    return list_pages({.prefix = prefix}, most);
  }
  std::shared_ptr<const RangeSource> open(std::string_view key,
                                          std::string_view version) const override {
    return on_key(key, [&] { return open_version(key, version); });
  }
  std::shared_ptr<const RangeSource> open_listed(const StoredValue& value) const override {
    return on_key(value.key, [&] {
      return value.version.empty() ? open_version(value.key, {}) : source_of(value);
    });
  }
  void write(std::string_view key, ByteView value) override {
    on_key(key, [&] { client_->put({.name = key}, value); });
  }
  void remove(std::string_view key) override {
    on_key(key, [&] { client_->remove(key); });
  }
  void remove_all(const std::vector<std::string>& keys) override {
    if (keys.empty()) return;
    for (const std::string& key : keys) check_object_key(key);
    Executor executor(std::min(keys.size(), kMostRemovalsAtOnce));
    executor.for_each(keys.size(), [&](std::size_t i) { remove(keys[i]); });
  }
  bool copy(std::string_view from, std::string_view to) override {
    check_object_key(to);
    return on_key(from, [&] { return client_->copy(from, to); });
  }
  bool replace_if(std::string_view key, std::optional<ByteView> expected, ByteView value) override {
    return on_key(key, [&] {
      const auto generation = generation_to_replace(key, expected);
      return generation &&
             client_->put({.name = key, .if_generation = *generation, .save = random_save_number()},
                          value);
    });
  }
  std::unique_ptr<Appender> append(std::string_view key) override {
    check_object_key(key);
    return make_gcs_appender(client_, std::string(key), describe(key));
  }
  std::string describe(std::string_view key) const override {
    return "gs://" + client_->bucket() + "/" + std::string(key);
  }

 private:
  template <class F>
  auto on_key(std::string_view key, F f) const -> decltype(f()) {
    check_object_key(key);
    return with_context([&] { return describe(key); }, f);
  }

  std::optional<Bytes> read_range(std::string_view key, const ByteRange& range) const {
    if (range.length == 0 || !is_possible(range)) return read_nothing(key, range);
    auto media = client_->get(
        {.name = key, .offset = range.offset, .length = range.length, .most = kMostSize});
    if (!media) return std::nullopt;
    if (media->is_outside) return read_nothing(key, range);
    length_in(range, media->size);
    return std::move(media->bytes);
  }

  // For a range that has no bytes, whether it is right or not.
  std::optional<Bytes> read_nothing(std::string_view key, const ByteRange& range) const {
    const auto object = client_->find(key);
    if (!object) return std::nullopt;
    // The object may have grown after it was read.
    if (length_in(range, object->size) != 0) fail_replaced();
    return Bytes();
  }

  std::optional<Bytes> read_whole(std::string_view key, std::uint64_t most) const {
    auto media = client_->get({.name = key, .most = most});
    if (!media) return std::nullopt;
    check_at_most(media->size, most);
    return std::move(media->bytes);
  }

  bool fill(std::string_view key, std::uint64_t offset, MutableByteView out) const {
    const ByteRange range{.offset = offset, .length = out.size()};
    if (out.empty() || !is_possible(range)) return read_nothing(key, range).has_value();
    const MutableByteView into[] = {out};
    try {
      const auto media =
          client_->get({.name = key, .offset = offset, .length = out.size(), .into = into});
      return media && (!media->is_outside || read_nothing(key, range));
    } catch (const WrongAnswer&) {
      // An object that ends within the range has an answer of the wrong length.
      if (const auto object = client_->find(key)) length_in(range, object->size);
      throw;
    }
  }

  std::shared_ptr<const RangeSource> open_version(std::string_view key,
                                                  std::string_view version) const {
    auto object = client_->find(key);
    if (!object) return nullptr;
    if (!version.empty() && version != std::to_string(object->generation)) fail_replaced();
    StoredValue value = stored_value(*std::move(object));
    value.key = key;
    return source_of(std::move(value));
  }

  // Reads the generation that `value.version` names.
  [[nodiscard]] std::shared_ptr<const RangeSource> source_of(StoredValue value) const {
    const std::uint64_t generation = parse_generation(value.version);
    const auto fetch = [client = client_, name = value.key, generation](
                           std::uint64_t offset, std::span<const MutableByteView> parts,
                           const std::string& /*version*/) {
      std::uint64_t length = 0;
      for (const MutableByteView part : parts) length += part.size();
      (void)client->get({.name = name,
                         .offset = offset,
                         .length = length,
                         .generation = generation,
                         .into = parts});
    };
    std::string where = describe(value.key);
    return std::make_shared<const ObjectSource>(std::move(value), std::move(where), fetch);
  }

  // The generation of the value that is expected to be stored, 0 for none. nullopt: the stored
  // value is another one.
  std::optional<std::uint64_t> generation_to_replace(std::string_view key,
                                                     std::optional<ByteView> expected) const {
    if (!expected) return 0;
    const auto object = client_->find(key);
    if (!object || object->size != expected->size()) return std::nullopt;
    if (!expected->empty() && !holds(*object, *expected)) return std::nullopt;
    return object->generation;
  }

  // Whether this generation of the object is stored and has these bytes.
  bool holds(const GcsObject& object, ByteView expected) const {
    try {
      const auto media = client_->get(
          {.name = object.name, .generation = object.generation, .most = expected.size()});
      return std::ranges::equal(media->bytes, expected);
    } catch (const Error& e) {
      if (e.code() != Code::kUnavailable) throw;
      return false;  // another writer was faster
    }
  }

  // A listing that ends after `most` values, at a page's end.
  StoreListing list_pages(GcsList query, std::size_t most) const {
    StoreListing listing;
    if (!can_begin_names(query.prefix)) return listing;
    const std::string prefix(query.prefix);
    with_context([&] { return describe(prefix); },
                 [&] {
                   std::string token;
                   ListingLimits limits;
                   do {
                     query.page_token = token;
                     query.most = kKeysOfPage;
                     GcsPage page = client_->list(query);
                     add_page(page, prefix, listing);
                     limits.check(listing.values.size() + listing.folders.size());
                     if (!page.next_page_token.empty() && page.next_page_token == token)
                       throw WrongAnswer("the store's listing does not end");
                     token = std::move(page.next_page_token);
                     listing.is_whole = token.empty();
                   } while (!listing.is_whole && listing.values.size() < most);
                 });
    sort_and_cut(listing, most);
    return listing;
  }

  static void add_page(GcsPage& page, const std::string& prefix, StoreListing& listing) {
    for (GcsObject& object : page.objects) {
      if (!object.name.starts_with(prefix)) fail_listing();
      if (flaw_of_object_key(object.name) == nullptr)
        listing.values.push_back(stored_value(std::move(object)));
    }
    for (std::string& folder : page.prefixes) {
      if (!folder.starts_with(prefix) || !folder.ends_with('/')) fail_listing();
      if (is_below_folder(std::string_view(folder).substr(0, folder.size() - 1)))
        listing.folders.push_back(std::move(folder));
    }
  }

  static void sort_and_cut(StoreListing& listing, std::size_t most) {
    std::ranges::sort(listing.values, {}, &StoredValue::key);
    std::ranges::sort(listing.folders);
    if (listing.values.size() <= most) return;
    listing.values.resize(most);
    listing.is_whole = false;
  }

  [[noreturn]] static void fail_listing() {
    throw WrongAnswer("the store's listing has other names than were asked for");
  }
  [[noreturn]] static void fail_replaced() {
    throw Error(Code::kUnavailable, "was replaced or removed while Cairn read it; open it again");
  }

  std::shared_ptr<const GcsClient> client_;
};

}  // namespace

StorePtr make_gcs_store(std::shared_ptr<const GcsClient> client) {
  return std::make_shared<GcsStore>(std::move(client));
}

}  // namespace cairn::inline v0::object

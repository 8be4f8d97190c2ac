// s3_store.cc -- a KvStore over S3.
#include <cairn/kvstore/object/s3/s3_store.h>

#include <cairn/base/errors.h>
#include <cairn/kvstore/object/request/listing_limits.h>
#include <cairn/kvstore/object/request/store_error.h>
#include <cairn/kvstore/object/request/url.h>
#include <cairn/kvstore/object/s3/s3_source.h>
#include <cairn/kvstore/object/s3/s3_upload.h>
#include <cairn/kvstore/range.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace cairn::inline v0::object {
namespace {

// A range that a header can express. All objects are smaller; others are refused with their size.
bool fits_header(const ByteRange& range) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 62U;
  return range.offset < kMost && range.length.value_or(1) < kMost && range.length.value_or(1) > 0;
}

bool is_whole(const ByteRange& range) { return range.offset == 0 && !range.length; }

}  // namespace

S3Store::S3Store(std::shared_ptr<S3Client> client, const std::string& prefix,
                 std::function<std::string()> new_id)
    : client_(std::move(client)),
      prefix_(prefix.empty() ? "" : prefix + "/"),
      new_id_(std::move(new_id)) {}

std::string S3Store::full_key(std::string_view key) const {
  check_not_empty(key);
  std::string full = prefix_ + std::string(key);
  check_object_key(full);
  return full;
}

std::string S3Store::describe(std::string_view key) const {
  return "s3://" + client_->bucket() + "/" + prefix_ + std::string(key);
}

std::optional<Bytes> S3Store::read(std::string_view key, ByteRange range) const {
  const std::string full = full_key(key);
  return with_context([&] { return describe(key); },
                      [&]() -> std::optional<Bytes> {
                        if (is_whole(range)) {
                          auto got = client_->get({.key = full});
                          return got ? std::optional(std::move(got->body)) : std::nullopt;
                        }
                        if (fits_header(range)) {
                          try {
                            auto got = client_->get({.key = full, .range = range});
                            if (!got) return std::nullopt;
                            (void)length_in(range, got->head.size);
                            return std::move(got->body);
                          } catch (const Error& e) {
                            if (e.code() != Code::kOutOfRange) throw;
                          }
                        }
                        // An empty range, one at the end, or one outside: S3 refuses all of them
                        // alike.
                        const auto head = client_->head(full);
                        if (!head) return std::nullopt;
                        if (length_in(range, head->size) != 0)
                          throw Error(Code::kUnavailable,
                                      "the object was replaced while Cairn read it");
                        return Bytes();
                      });
}

std::optional<Bytes> S3Store::read_at_most(std::string_view key, std::uint64_t most) const {
  const std::string full = full_key(key);
  return with_context([&] { return describe(key); },
                      [&]() -> std::optional<Bytes> {
                        auto got = client_->get({.key = full, .most = most});
                        return got ? std::optional(std::move(got->body)) : std::nullopt;
                      });
}

bool S3Store::read_into(std::string_view key, std::uint64_t offset, MutableByteView out) const {
  const std::string full = full_key(key);
  const ByteRange range{offset, out.size()};
  return with_context(
      [&] { return describe(key); },
      [&] {
        std::optional<Error> refusal;
        if (fits_header(range)) {
          try {
            return client_->get({.key = full, .range = range, .into = {&out, 1}}).has_value();
          } catch (const WrongAnswer& e) {
            refusal = e;
          } catch (const Error& e) {
            if (e.code() != Code::kOutOfRange) throw;
            refusal = e;
          }
        }
        const auto head = client_->head(full);
        if (!head) return false;
        (void)length_in(range, head->size);
        if (refusal) throw Error(*refusal);
        return true;
      });
}

std::optional<std::uint64_t> S3Store::size(std::string_view key) const {
  const std::string full = full_key(key);
  return with_context([&] { return describe(key); },
                      [&]() -> std::optional<std::uint64_t> {
                        const auto head = client_->head(full);
                        return head ? std::optional(head->size) : std::nullopt;
                      });
}

void S3Store::add_page(ListPage page, const std::string& prefix, StoreListing& listing) const {
  for (StoredValue& value : page.values) {
    if (!value.key.starts_with(prefix) || flaw_of_object_key(value.key) != nullptr) continue;
    value.key.erase(0, prefix_.size());
    if (!value.key.empty()) listing.values.push_back(std::move(value));
  }
  for (std::string& folder : page.folders) {
    if (!folder.starts_with(prefix) || !folder.ends_with('/') || !may_begin_object_keys(folder))
      continue;
    folder.erase(0, prefix_.size());
    if (!folder.empty()) listing.folders.push_back(std::move(folder));
  }
}

StoreListing S3Store::list_pages(std::string_view prefix, std::string_view delimiter,
                                 std::size_t most) const {
  StoreListing listing;
  const std::string full = prefix_ + std::string(prefix);
  if (!may_begin_object_keys(full)) return listing;
  std::string next;
  ListingLimits limits;
  do {
    with_context([&] { return describe(prefix); },
                 [&] {
                   ListPage page = client_->list(full, delimiter, next);
                   next = page.next;
                   add_page(std::move(page), full, listing);
                   limits.check(listing.values.size() + listing.folders.size());
                 });
  } while (!next.empty() && listing.values.size() <= most);
  // Not every server lists in the order of bytes.
  std::sort(listing.values.begin(), listing.values.end(),
            [](const StoredValue& a, const StoredValue& b) { return a.key < b.key; });
  std::sort(listing.folders.begin(), listing.folders.end());
  listing.is_whole = next.empty() && listing.values.size() <= most;
  if (listing.values.size() > most) listing.values.resize(most);
  return listing;
}

StoreListing S3Store::list_level(std::string_view prefix) const {
  return list_pages(prefix, "/", std::numeric_limits<std::size_t>::max());
}

StoreListing S3Store::list_values(std::string_view prefix, std::size_t most) const {
  return list_pages(prefix, "", most);
}

std::shared_ptr<const RangeSource> S3Store::open(std::string_view key,
                                                 std::string_view version) const {
  const std::string full = full_key(key);
  return with_context([&] { return describe(key); },
                      [&] { return open_s3_source(client_, full, version, describe(key)); });
}

std::shared_ptr<const RangeSource> S3Store::open_listed(const StoredValue& value) const {
  if (value.version.empty()) return open(value.key, {});
  StoredValue object = value;
  object.key = full_key(value.key);
  return open_s3_version(client_, std::move(object), describe(value.key));
}

void S3Store::write(std::string_view key, ByteView value) {
  const std::string full = full_key(key);
  with_context([&] { return describe(key); },
               [&] {
                 return client_->put({.key = full, .parts = {&value, 1}});
               });
}

void S3Store::remove(std::string_view key) {
  const std::string full = full_key(key);
  with_context([&] { return describe(key); }, [&] { client_->remove(full); });
}

void S3Store::remove_all(const std::vector<std::string>& keys) {
  std::vector<std::string> full;
  full.reserve(keys.size());
  for (const std::string& key : keys) full.push_back(full_key(key));
  with_context([&] { return describe(""); }, [&] { client_->remove_all(full); });
}

bool S3Store::copy(std::string_view from, std::string_view to) {
  const std::string source = full_key(from), target = full_key(to);
  return with_context([&] { return describe(to); }, [&] { return client_->copy(source, target); });
}

bool S3Store::replace_if(std::string_view key, std::optional<ByteView> expected, ByteView value) {
  const std::string full = full_key(key);
  return with_context([&] { return describe(key); },
                      [&] {
                        if (!expected) return create(full, value);
                        const auto stored = client_->get({.key = full});
                        if (!stored || !std::ranges::equal(stored->body, *expected)) return false;
                        return replace(full, stored->head.version, value);
                      });
}

bool S3Store::create(const std::string& key, ByteView value) {
  const std::string id = new_id_();
  const S3Write write{.key = key, .parts = {&value, 1}, .if_absent = true, .save_id = id};
  const S3Written written = client_->put(write);
  if (written.is_stored) {
    check_creates(write);
    return true;
  }
  client_->dialect().refuses_second_create = true;
  if (!written.was_repeated) return false;
  const auto stored = client_->head(key);
  return stored && stored->save_id == id;
}

// The first create of an endpoint is sent twice: a store that takes the second one, too, ignores
// the condition.
void S3Store::check_creates(const S3Write& write) {
  S3Dialect& dialect = client_->dialect();
  if (dialect.refuses_second_create) return;
  if (client_->put(write).is_stored)
    throw Error(Code::kUnimplemented,
                "the store ignores If-None-Match, so it cannot tell which of two writers is first");
  dialect.refuses_second_create = true;
}

bool S3Store::replace(const std::string& key, const std::string& version, ByteView value) {
  const std::string id = new_id_();
  S3Dialect& dialect = client_->dialect();
  if (version.size() < 3)
    throw Error(Code::kUnimplemented, "the store gives objects no ETag to write conditionally");
  const std::string bare = version.substr(1, version.size() - 2);
  bool is_quoted = dialect.quotes_if_match;
  for (;;) {
    const S3Written written = client_->put({.key = key,
                                            .parts = {&value, 1},
                                            .if_version = is_quoted ? version : bare,
                                            .save_id = id});
    if (written.is_stored) {
      dialect.quotes_if_match = is_quoted;
      return true;
    }
    if (!written.was_repeated && !is_quoted) return false;
    const auto stored = client_->head(key);
    if (stored && stored->save_id == id) return true;
    // The store refuses the quotes, if the version is still the one that it refused.
    if (!is_quoted || !stored || stored->version != version) return false;
    is_quoted = false;
  }
}

std::unique_ptr<Appender> S3Store::append(std::string_view key) {
  return std::make_unique<S3Upload>(client_, full_key(key), describe(key));
}

std::vector<UnfinishedUpload> S3Store::unfinished_uploads(const std::string& prefix) const {
  std::vector<UnfinishedUpload> uploads;
  const std::string full = prefix_ + prefix;
  for (OpenUpload& upload :
       with_context([&] { return describe(prefix); }, [&] { return client_->uploads(full); }))
    if (upload.key.starts_with(full) && upload.key.size() > prefix_.size())
      uploads.push_back({upload.key.substr(prefix_.size()), upload.id, upload.started_ns});
  std::ranges::stable_sort(uploads, {}, &UnfinishedUpload::key);
  return uploads;
}

void S3Store::discard_upload(const UnfinishedUpload& upload) {
  with_context([&] { return describe(upload.key); },
               [&] { client_->abort(prefix_ + upload.key, upload.id); });
}

}  // namespace cairn::inline v0::object

// store_output.cc -- the order in which the files of a save reach a store.
#include <cairn/formats/output/store_output.h>

#include <cairn/base/cancellation.h>
#include <cairn/error.h>
#include <cairn/io/temporaries.h>
#include <cairn/kvstore/url.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace cairn::inline v0 {
namespace {

// The largest object that Cairn uploads to S3: 10,000 parts of 16 MiB.
constexpr std::uint64_t kMostOfS3 = std::uint64_t{10'000} << 24U;

const StoredValue* find_value(const StoreListing& listing, const std::string& key) {
  const auto at = std::ranges::find(listing.values, key, &StoredValue::key);
  return at == listing.values.end() ? nullptr : &*at;
}

std::string common_beginning(const std::string& a, const std::string& b) {
  return {a.begin(), std::ranges::mismatch(a, b).in1};
}

}  // namespace

StoreOutput::StoreOutput(const OutputPlace& place, const std::vector<OutputFile>& files,
                         std::string index, IfExists if_exists)
    : place_(place), index_(std::move(index)), if_exists_(if_exists) {
  prefix_ = place.key_of(index_.empty() ? files.front().path : index_);
  const bool is_set = !index_.empty();
  for (const OutputFile& file : files) {
    if (url_scheme(file.path) == "s3" && file.size > kMostOfS3)
      throw Error(Code::kUnimplemented,
                  fmt::format("{}: {} bytes are more than Cairn uploads to S3 as one object ({}); "
                              "split it into shards (--shard-bytes)",
                              file.path, file.size, kMostOfS3));
    StoreFileSpec spec{.key = place.key_of(file.path),
                       .url = file.path,
                       .size = file.size,
                       .if_exists = if_exists,
                       .commits_itself = is_set};
    if (is_set) spec.watch = [this](bool is_commit) { watch(is_commit); };
    prefix_ = common_beginning(prefix_, spec.key);
    files_.emplace_back(place.store(), std::move(spec));
  }
}

StoreOutput::~StoreOutput() {
  if (!is_begun_ || is_committed_) return;
  if (claim_ && !claim_->is_ours()) return;
  for (StoreFile& file : files_) {
    // Without an index, the first file may have appeared although its request failed. What lies
    // beside it stays.
    if (!index_.empty() || &file == &files_.front()) file.discard();
  }
}

StoreListing StoreOutput::list() const { return place_.store()->list_level(prefix_); }

void StoreOutput::begin(const std::vector<std::string>& beside) {
  std::vector<std::string> urls = beside;
  for (const StoreFile& file : files_) urls.push_back(file.spec().url);
  if (!index_.empty()) urls.push_back(index_);
  for (const std::string& url : urls) prefix_ = common_beginning(prefix_, place_.key_of(url));
  const StoreListing listing = list();
  for (const std::string& url : urls) {
    const std::string key = place_.key_of(url);
    if (std::ranges::find(listing.folders, key + "/") != listing.folders.end())
      throw Error(Code::kAlreadyExists,
                  url + ": is a folder, not a file; it is not replaced, choose another name");
    if (if_exists_ == IfExists::kFail && find_value(listing, key) != nullptr)
      refuse_taken_key(place_.claim_of(url));
  }
  is_begun_ = true;
  if (!index_.empty()) claim_.emplace(place_.claim_of(index_), if_exists_);
}

void StoreOutput::watch(bool is_commit) {
  const std::scoped_lock lock(mutex_);
  claim_->keep_alive();
  if (!is_commit) return;
  claim_->check();
  claim_->forget_old();  // its files are about to change
}

void StoreOutput::check_claim() { watch(true); }

void StoreOutput::check_sizes() const {
  const StoreListing listing = list();
  for (const StoreFile& file : files_) {
    const StoreFileSpec& spec = file.spec();
    const StoredValue* value = find_value(listing, spec.key);
    if (value != nullptr && value->size == spec.size) continue;
    throw Error(
        Code::kDataLoss,
        fmt::format("{}: {} bytes were written, but the store lists {}", spec.url, spec.size,
                    value == nullptr ? "no such object" : fmt::format("{}", value->size)));
  }
}

void StoreOutput::commit(ByteView index) {
  // Backwards: files beside a single file appear before it.
  for (auto file = files_.rbegin(); file != files_.rend(); ++file) file->commit();
  // A single file is in place, and has replaced an older one. It stays if the store does not answer
  // any more.
  is_committed_ = index_.empty();
  try {
    check_sizes();
  } catch (const Error& e) {
    if (e.code() == Code::kDataLoss) is_committed_ = false;
    throw;
  }
  if (claim_) {
    const CommitSection section;
    claim_->replace_by(index);
  }
  is_committed_ = true;
}

void StoreOutput::remove_old(const std::vector<std::string>& urls) {
  std::vector<std::string> keys;
  keys.reserve(urls.size());
  for (const std::string& url : urls) keys.push_back(place_.key_of(url));
  if (keys.empty()) return;
  const CancellationScope scope{Cancellation()};
  with_context(
      [&] {
        return (files_.empty() ? index_ : files_.front().spec().url) +
               ": is in place, but files of the previous checkpoint remain";
      },
      [&] { place_.store()->remove_all(keys); });
}

}  // namespace cairn::inline v0

// key_editor.cc -- reads and changes a part of a store: key by key in directories and memory, in
// commits in a database.
#include <cairn/tensorstore_spec/live_database.h>
#include <cairn/tensorstore_spec/members.h>
#include <cairn/tensorstore_spec/store_location.h>

#include <mutex>
#include <utility>

namespace cairn::inline v0::tensorstore_spec {
namespace {

// Sends all values through one stream of changes, and so into one data file.
class CommitSink : public ValueSink {
 public:
  CommitSink(ocdbt::Writer::Stream& stream, const std::string& prefix)
      : stream_(stream), prefix_(prefix) {}

  void write(std::string_view key, std::span<const ByteView> pieces) override {
    const std::lock_guard lock(mutex_);
    stream_.write(prefix_ + std::string(key), pieces);
  }
  void remove(std::string_view key) override {
    const std::lock_guard lock(mutex_);
    stream_.remove(prefix_ + std::string(key));
  }

 private:
  ocdbt::Writer::Stream& stream_;
  const std::string& prefix_;
  std::mutex mutex_;
};

}  // namespace

KeyEditor::KeyEditor(StoreLocation location, std::string prefix)
    : place_(std::move(location)), prefix_(std::move(prefix)) {
  reopen();
}

void KeyEditor::reopen() {
  StorePtr store = place_.below(prefix_);
  const std::lock_guard lock(mutex_);
  reader_ = std::move(store);
}

StorePtr KeyEditor::reader() const {
  const std::lock_guard lock(mutex_);
  return reader_;
}

void KeyEditor::check_writable() const {
  if (place_.database) check_no_version(*place_.database);
}

void KeyEditor::commit(const std::function<void(ocdbt::Writer::Stream&)>& changes) {
  check_writable();
  const Database& database = *place_.database;
  ocdbt::Writer writer(database.base, commit_options(database));
  changes(writer.stream());
  writer.commit();
  reopen();
}

void KeyEditor::change(const std::function<void(ValueSink&)>& changes) {
  if (!place_.database) {
    StoreSink sink(reader());
    return changes(sink);
  }
  commit([&](ocdbt::Writer::Stream& stream) {
    CommitSink sink(stream, prefix_);
    changes(sink);
  });
}

bool KeyEditor::create(const std::string& key, ByteView value) {
  if (!place_.database) return reader()->replace_if(key, std::nullopt, value);
  check_writable();
  const bool created = replace_in_database(key, std::nullopt, value);
  reopen();
  return created;
}

bool KeyEditor::replace_in_database(const std::string& key, std::optional<ByteView> expected,
                                    ByteView value) const {
  return open_live_database(place_.database)->replace_if(prefix_ + key, expected, value);
}

void KeyEditor::edit(const std::string& key, const std::function<std::string(const Bytes*)>& edit) {
  check_writable();
  for (bool done = false; !done;) {
    if (place_.database) reopen();
    const StorePtr store = reader();
    const auto old = store->read_at_most(key, JsonLimits().max_bytes);
    const std::string value = edit(old ? &*old : nullptr);
    const auto expected = old ? std::optional<ByteView>(*old) : std::nullopt;
    done = place_.database ? replace_in_database(key, expected, as_bytes(value))
                           : store->replace_if(key, expected, as_bytes(value));
  }
  if (place_.database) reopen();
}

void KeyEditor::clear() {
  if (place_.database)
    return commit([&](ocdbt::Writer::Stream& stream) {
      stream.remove_range(KeyRange::with_prefix(prefix_));
    });
  if (place_.is_external && prefix_.find_first_not_of('/') == std::string::npos)
    throw Error(Code::kInvalidArgument,
                "\"delete_existing\" would remove everything: the store's path is empty");
  const StorePtr store = reader();
  std::vector<std::string> keys;
  for (ListEntry& entry : store->list("")) keys.push_back(std::move(entry.key));
  store->remove_all(keys);
}

}  // namespace cairn::inline v0::tensorstore_spec

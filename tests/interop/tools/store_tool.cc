// store_tool.cc -- uses the store of a URL as a list of jobs on stdin says; for tests against real
// object stores. Endpoint and keys come from the environment.
//
// In:  [{"url": "s3://bucket/prefix", "steps": [
//        {"read": key} | {"range": [key, offset, length or null]} | {"fill": [key, offset, size]} |
//        {"most": [key, size]} | {"size": key} | {"list": prefix} | {"level": prefix} |
//        {"values": [prefix, most]} | {"describe": key} | {"write": [key, text]} |
//        {"append": [key, size, bytes of a part]} | {"replace": [key, text or null, text]} |
//        {"remove": key} | {"remove_all": [key, ...]} | {"copy": [from, to]} |
//        {"open": key} | {"opened": [offset, size]} | {"commit": [[key, text], ...]}]}]
//      "opened" reads what the last "open" opened. With "ocdbt": true the steps read the database
//      below the URL, and "commit" writes to it.
// Out: [[the answer of each step, or {"error": text, "code": name}]]; for a job that cannot open
//      its store, {"error", "code"}
#include <cairn/base/json/json.h>
#include <cairn/io/tree/range_source.h>
#include <cairn/storage/kvstore.h>
#include <cairn/storage/ocdbt.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/interop/tools/answer_jobs.h"

namespace {

using namespace cairn;

std::string text(const Json& value) { return std::string(*value.as_string()); }
std::uint64_t number(const Json& value) {
  return static_cast<std::uint64_t>(value.as_int64().value());
}
std::string string_of(ByteView bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Json bytes_or_null(const std::optional<Bytes>& value) {
  return value ? Json(string_of(*value)) : Json(nullptr);
}

Json list_of(const std::vector<ListEntry>& entries) {
  JsonArray found;
  for (const ListEntry& entry : entries)
    found.push_back(JsonArray{entry.key, static_cast<std::int64_t>(entry.size)});
  return found;
}

// Versions and times differ from store to store: only whether they are there.
Json listing_of(const StoreListing& listing) {
  JsonArray values, folders;
  for (const StoredValue& value : listing.values)
    values.push_back(JsonArray{value.key, static_cast<std::int64_t>(value.size)});
  for (const std::string& folder : listing.folders) folders.emplace_back(folder);
  return JsonObject{
      {"values", std::move(values)}, {"folders", std::move(folders)}, {"whole", listing.is_whole}};
}

// Byte i is i modulo 251, so that parts in the wrong order do not compare equal.
void append_pattern(Appender& target, std::uint64_t size, std::uint64_t part) {
  Bytes block;
  for (std::uint64_t begin = 0; begin < size; begin += part) {
    block.resize(std::min(part, size - begin));
    for (std::uint64_t i = 0; i < block.size(); ++i) block[i] = std::byte((begin + i) % 251);
    const ByteView view = block;
    target.append({&view, 1});
  }
  target.commit();
}

// The store of a job, and what its steps leave open.
class Session {
 public:
  explicit Session(const Json& job) : base_(open_store(text(*job.find("url")))), store_(base_) {
    if (job.find("ocdbt")) store_ = open_ocdbt(base_);
  }

  Json answer(const Json& step) {
    const auto& [name, given] = *step.as_object()->begin();
    if (given.as_array()) return answer_list(name, given, *given.as_array());
    const std::string key = text(given);
    if (name == "read") return bytes_or_null(store_->read(key, {}));
    if (name == "size") return size_of(key);
    if (name == "list") return list_of(store_->list(key));
    if (name == "level") return listing_of(store_->list_level(key));
    if (name == "describe") return store_->describe(key);
    if (name == "open") return open(key);
    store_->remove(key);
    return nullptr;
  }

 private:
  Json answer_list(const std::string& name, const Json& given, const JsonArray& items) {
    if (name == "remove_all") return remove_all(items);
    if (name == "commit") return commit(items);
    if (name == "opened") return read_opened(number(items.at(0)), number(items.at(1)));
    const std::string key = text(items.at(0));
    if (name == "range") return range(key, items);
    if (name == "fill") return fill(key, number(items.at(1)), number(items.at(2)));
    if (name == "most") return bytes_or_null(store_->read_at_most(key, number(items.at(1))));
    if (name == "values") return listing_of(store_->list_values(key, number(items.at(1))));
    if (name == "copy") return store_->copy(key, text(items.at(1)));
    if (name == "replace") return replace(key, items);
    if (name == "write")
      store_->write(key, as_bytes(text(items.at(1))));
    else if (name == "append")
      append_pattern(*store_->append(key), number(items.at(1)), number(items.at(2)));
    else
      throw Error(Code::kInvalidArgument, "no such step: " + name + " " + to_text(given));
    return nullptr;
  }

  Json size_of(const std::string& key) const {
    const auto size = store_->size(key);
    return size ? Json(static_cast<std::int64_t>(*size)) : Json(nullptr);
  }
  Json range(const std::string& key, const JsonArray& items) const {
    ByteRange range{.offset = number(items.at(1))};
    if (items.at(2).as_int64()) range.length = number(items.at(2));
    return bytes_or_null(store_->read(key, range));
  }
  Json fill(const std::string& key, std::uint64_t offset, std::uint64_t size) const {
    Bytes out(size);
    return store_->read_into(key, offset, out) ? Json(string_of(out)) : Json(nullptr);
  }
  Json replace(const std::string& key, const JsonArray& items) {
    const bool exists = items.at(1).as_string() != nullptr;
    const std::string expected = exists ? text(items.at(1)) : "";
    const std::string value = text(items.at(2));
    return store_->replace_if(key, exists ? std::optional(as_bytes(expected)) : std::nullopt,
                              as_bytes(value));
  }
  Json remove_all(const JsonArray& items) {
    std::vector<std::string> keys;
    for (const Json& item : items) keys.push_back(text(item));
    store_->remove_all(keys);
    return nullptr;
  }
  Json open(const std::string& key) {
    opened_ = store_->open(key, "");
    return opened_ ? Json(static_cast<std::int64_t>(opened_->size())) : Json(nullptr);
  }
  Json read_opened(std::uint64_t offset, std::uint64_t size) const {
    if (!opened_) throw Error(Code::kFailedPrecondition, "nothing is open");
    Bytes out(size);
    opened_->read_into(offset, out);
    return string_of(out);
  }
  Json commit(const JsonArray& pairs) {
    OcdbtTransaction changes(base_);
    for (const Json& pair : pairs)
      changes.write(text(pair.as_array()->at(0)), as_bytes(text(pair.as_array()->at(1))));
    const auto keys = static_cast<std::int64_t>(changes.commit().num_keys);
    store_ = open_ocdbt(base_);
    return keys;
  }

  StorePtr base_, store_;  // the second is the database, if the job asks for it
  std::shared_ptr<const RangeSource> opened_;
};

Json answer(const Json& job) {
  Session session(job);
  const auto each = [&](const Json& step) { return session.answer(step); };
  JsonArray answers;
  for (const Json& step : *job.find("steps")->as_array())
    answers.push_back(cairn::testing::answer_of(each, step));
  return answers;
}

}  // namespace

int main() { cairn::testing::answer_list(answer); }

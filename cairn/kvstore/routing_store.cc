// routing_store.cc -- passes the calls of a store on.
#include <cairn/kvstore/routing_store.h>

namespace cairn::inline v0 {

std::optional<Bytes> RoutingStore::read(std::string_view key, ByteRange range) const {
  const Target target = find(key);
  return target.store == nullptr ? std::nullopt : target.store->read(target.key, range);
}

std::optional<Bytes> RoutingStore::read_at_most(std::string_view key, std::uint64_t most) const {
  const Target target = find(key);
  return target.store == nullptr ? std::nullopt : target.store->read_at_most(target.key, most);
}

bool RoutingStore::read_into(std::string_view key, std::uint64_t offset,
                             MutableByteView out) const {
  const Target target = find(key);
  return target.store != nullptr && target.store->read_into(target.key, offset, out);
}

std::optional<SharedBytes> RoutingStore::map(std::string_view key) const {
  const Target target = find(key);
  return target.store == nullptr ? std::nullopt : target.store->map(target.key);
}

std::optional<std::uint64_t> RoutingStore::size(std::string_view key) const {
  const Target target = find(key);
  return target.store == nullptr ? std::nullopt : target.store->size(target.key);
}

std::optional<Location> RoutingStore::locate(std::string_view key) const {
  const Target target = find(key);
  return target.store == nullptr ? std::nullopt : target.store->locate(target.key);
}

std::shared_ptr<const RangeSource> RoutingStore::open(std::string_view key,
                                                      std::string_view version) const {
  const Target target = find(key);
  return target.store == nullptr ? nullptr : target.store->open(target.key, version);
}

std::shared_ptr<const RangeSource> RoutingStore::open_listed(const StoredValue& value) const {
  Target target = find(value.key);
  if (target.store == nullptr) return nullptr;
  StoredValue there = value;
  there.key = std::move(target.key);
  return target.store->open_listed(there);
}

void RoutingStore::write(std::string_view key, ByteView value) {
  const Target target = find_to_write(key);
  target.store->write(target.key, value);
}

void RoutingStore::remove(std::string_view key) {
  const Target target = find_to_write(key);
  target.store->remove(target.key);
}

bool RoutingStore::replace_if(std::string_view key, std::optional<ByteView> expected,
                              ByteView value) {
  const Target target = find_to_write(key);
  return target.store->replace_if(target.key, expected, value);
}

std::unique_ptr<Appender> RoutingStore::append(std::string_view key) {
  const Target target = find_to_write(key);
  return target.store->append(target.key);
}

std::string RoutingStore::describe(std::string_view key) const {
  const Target target = find(key);
  return target.store->describe(target.key);
}

RoutingStore::Target RoutingStore::find_to_write(std::string_view key) const {
  if (!read_only_.empty()) throw Error(Code::kUnimplemented, describe(key) + ": " + read_only_);
  return find(key);
}

}  // namespace cairn::inline v0

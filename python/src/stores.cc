// stores.cc -- binds storage/kvstore.h.
#include "stores.h"

#include "calls.h"
#include "forks.h"
#include "values/text.h"

#include <cairn/error.h>
#include <cairn/storage/kvstore.h>

#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace nb = nanobind;

namespace cairn::python {
namespace {

ByteView bytes_of(const nb::bytes& value) {
  return {static_cast<const std::byte*>(value.data()), value.size()};
}

// Waits for a request without Python's lock.
void request(const std::function<void()>& work) {
  run_long(nb::none(), [&](const CallControl&) { work(); });
}

nb::tuple to_tuple(const StoredValue& value) {
  return nb::make_tuple(to_str(value.key), value.size, value.modified_ns);
}

// (values, folders), as list_level() has them.
nb::tuple to_tuple(const StoreListing& listing) {
  nb::list values;
  for (const StoredValue& value : listing.values) values.append(to_tuple(value));
  nb::list folders;
  for (const std::string& folder : listing.folders) folders.append(to_str(folder));
  return nb::make_tuple(values, folders);
}

class Appending {
 public:
  explicit Appending(std::unique_ptr<Appender> appender) { appender_.set(std::move(appender)); }
  void append(const nb::bytes& part) {
    appender_.check_is_here("a file of a store");
    const ByteView bytes = bytes_of(part);
    request([&] { appender_->append({&bytes, 1}); });
  }
  void commit() {
    appender_.check_is_here("a file of a store");
    request([&] { appender_->commit(); });
  }

 private:
  OwnedByProcess<Appender> appender_;
};

class Store {
 public:
  explicit Store(const std::string& url) {
    store_.set(std::make_unique<StorePtr>(open_store(url)));
  }
  [[nodiscard]] StoreListing list_level(const std::string& prefix) {
    return call<StoreListing>([&](KvStore& store) { return store.list_level(prefix); });
  }
  [[nodiscard]] StoreListing list_values(const std::string& prefix, std::size_t most) {
    return call<StoreListing>([&](KvStore& store) { return store.list_values(prefix, most); });
  }
  [[nodiscard]] std::optional<Bytes> read(const std::string& key) {
    return call<std::optional<Bytes>>([&](KvStore& store) { return store.read(key, {}); });
  }
  void write(const std::string& key, ByteView value) {
    call<bool>([&](KvStore& store) { return store.write(key, value), true; });
  }
  [[nodiscard]] bool create(const std::string& key, ByteView value) {
    return call<bool>([&](KvStore& store) { return store.replace_if(key, std::nullopt, value); });
  }
  void remove_all(const std::vector<std::string>& keys) {
    call<bool>([&](KvStore& store) { return store.remove_all(keys), true; });
  }
  [[nodiscard]] bool copy(const std::string& from, const std::string& to) {
    return call<bool>([&](KvStore& store) { return store.copy(from, to); });
  }
  [[nodiscard]] std::unique_ptr<Appending> append(const std::string& key) {
    return std::make_unique<Appending>(here().append(key));
  }

 private:
  [[nodiscard]] KvStore& here() const {
    store_.check_is_here("a store");
    return **store_;
  }
  template <class Result>
  Result call(const std::function<Result(KvStore&)>& work) const {
    KvStore& store = here();
    std::optional<Result> result;
    request([&] { result.emplace(work(store)); });
    return std::move(*result);
  }

  OwnedByProcess<StorePtr> store_;  // its connections have threads
};

}  // namespace

void define_stores(nb::module_& module) {
  nb::class_<Appending>(module, "StoreAppender", "A value that is written from front to back.")
      .def("append", &Appending::append, nb::arg("part"))
      .def("commit", &Appending::commit);
  nb::class_<Store>(module, "Store", "The values of a store. Opening it sends no request.")
      .def(
          "__init__", [](Store* self, const PathText& url) { new (self) Store(url.text); },
          nb::arg("url"))
      .def(
          "list_level",
          [](Store& self, const NameText& prefix) {
            return to_tuple(self.list_level(prefix.text));
          },
          nb::arg("prefix"))
      .def(
          "list_values",
          [](Store& self, const NameText& prefix, std::size_t most) {
            const StoreListing listing = self.list_values(prefix.text, most);
            return nb::make_tuple(to_tuple(listing)[0], listing.is_whole);
          },
          nb::arg("prefix"), nb::arg("most"))
      .def(
          "read",
          [](Store& self, const NameText& key) -> nb::object {
            const std::optional<Bytes> value = self.read(key.text);
            if (!value) return nb::none();
            return nb::bytes(value->data(), value->size());
          },
          nb::arg("key"), nb::sig("def read(self, key: str) -> bytes | None"))
      .def(
          "write",
          [](Store& self, const NameText& key, const nb::bytes& value) {
            self.write(key.text, bytes_of(value));
          },
          nb::arg("key"), nb::arg("value"))
      .def(
          "create",
          [](Store& self, const NameText& key, const nb::bytes& value) {
            return self.create(key.text, bytes_of(value));
          },
          nb::arg("key"), nb::arg("value"))
      .def(
          "remove_all",
          [](Store& self, const std::vector<NameText>& keys) {
            std::vector<std::string> all;
            all.reserve(keys.size());
            for (const NameText& key : keys) all.push_back(key.text);
            self.remove_all(all);
          },
          nb::arg("keys"))
      .def(
          "copy",
          [](Store& self, const NameText& source, const NameText& target) {
            return self.copy(source.text, target.text);
          },
          nb::arg("source"), nb::arg("target"))
      .def(
          "append", [](Store& self, const NameText& key) { return self.append(key.text); },
          nb::arg("key"));
}

}  // namespace cairn::python

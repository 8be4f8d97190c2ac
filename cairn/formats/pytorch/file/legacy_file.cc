#include <cairn/formats/pytorch/file/legacy_file.h>

#include <cairn/base/byte_io.h>
#include <cairn/base/errors.h>
#include <cairn/formats/pytorch/file/pickled_file.h>
#include <cairn/formats/pytorch/tensors/fields.h>

#include <fmt/format.h>

#include <cstdint>
#include <unordered_map>
#include <utility>

namespace cairn::inline v0::pytorch {
namespace {

using pickle::Kind;
using pickle::Pickle;
using pickle::Value;

constexpr std::int64_t kProtocol = 1001;
constexpr std::uint64_t kCountSize = 8;  // bytes before each storage

class LegacyFile {
 public:
  LegacyFile(const File& file, ZipReading reading)
      : is_partial_(reading == ZipReading::kLocalHeaders),
        size_(file.size()),
        read_([&](std::uint64_t offset, MutableByteView out) { file.read_into(offset, out); }) {}

  TorchFile read() {
    next();  // the magic number
    check_version(next());
    TorchFile file{.layout = "PyTorch file of the legacy form"};
    next();  // facts about the machine; elements are little-endian on all machines
    file.pickle = next();
    add_storages(file, next());
    return file;
  }

 private:
  Pickle next() {
    Pickle pickle = with_context([&] { return fmt::format("byte {}", at_); },
                                 [&] { return pickle_at(at_, size_, read_); });
    at_ += pickle.end();
    return pickle;
  }

  static void check_version(const Pickle& p) {
    if (p.kind(p.root()) != Kind::kInt || p.integer(p.root()) != kProtocol)
      throw Error(Code::kUnimplemented, "a legacy file of PyTorch of another version than 1001");
  }

  // Bytes of an element of each storage that the object names.
  static std::unordered_map<std::string, std::size_t> element_sizes(const Pickle& p) {
    std::unordered_map<std::string, std::size_t> sizes;
    for (Value value = 0; value < p.size(); ++value) {
      if (p.kind(value) != Kind::kPersistent) continue;
      const auto storage = try_call([&] { return storage_field(p, value); });
      if (!storage) continue;  // reading its tensor says why
      const auto& element = storage.value().element;
      sizes.emplace(storage.value().key, element ? element->size : 1);
    }
    return sizes;
  }

  void add_storages(TorchFile& file, const Pickle& keys) {
    if (keys.kind(keys.root()) != Kind::kList) data_loss("the keys of the storages are not a list");
    const auto sizes = element_sizes(file.pickle);
    for (const Value item : keys.items(keys.root())) {
      const std::string key(name_field(keys, item));
      const auto size = sizes.find(key);
      if (size == sizes.end())
        data_loss(fmt::format("storage \"{}\" belongs to no tensor, so its size is unknown", key));
      const auto added = try_call([&] {
        add_storage(file, key, size->second);
        return true;
      });
      if (added) continue;
      if (!is_partial_) throw Error(added.error());
      return;  // nobody knows where the next one begins
    }
    // PyTorch does not look at them.
    if (at_ != size_)
      file.notes.push_back(fmt::format("{} bytes follow the last storage", size_ - at_));
  }

  void add_storage(TorchFile& file, const std::string& key, std::size_t element) {
    if (size_ - at_ < kCountSize)
      data_loss(fmt::format("the file ends at byte {}, before storage \"{}\"", size_, key));
    Bytes header(kCountSize);
    read_(at_, header);
    const std::uint64_t count = ByteReader(header).u64();
    at_ += kCountSize;
    if (count > (size_ - at_) / element)
      data_loss(
          fmt::format("storage \"{}\" has {} elements of {} bytes at byte {}, but the file "
                      "ends at byte {}",
                      key, count, element, at_, size_));
    RawArray array;
    array.runs.push_back({0, at_, count * element});
    // PyTorch reads both, one over the other.
    const auto [known, is_new] = file.storages.emplace(key, array);
    if (!is_new) {
      if (known->second.stored_bytes() != array.stored_bytes())
        data_loss(fmt::format("two storages of different sizes have the key \"{}\"", key));
      file.notes.push_back(
          fmt::format("two storages have the key \"{}\"; the last one counts", key));
      known->second = std::move(array);
    }
    at_ += count * element;
  }

  bool is_partial_;  // read the storages before the first that is not there
  std::uint64_t size_;
  std::uint64_t at_ = 0;
  ReadAtFn read_;
};

}  // namespace

TorchFile read_legacy_file(const File& file, ZipReading reading) {
  return LegacyFile(file, reading).read();
}

}  // namespace cairn::inline v0::pytorch

#include <cairn/formats/pytorch/file/tar_file.h>

#include <cairn/base/byte_io.h>
#include <cairn/base/errors.h>
#include <cairn/formats/pytorch/file/tar_members.h>
#include <cairn/formats/pytorch/pickle/builder.h>
#include <cairn/formats/pytorch/tensors/element.h>
#include <cairn/formats/pytorch/tensors/fields.h>
#include <cairn/formats/pytorch/tensors/meaning.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace cairn::inline v0::pytorch {
namespace {

using pickle::Kind;
using pickle::Pickle;
using pickle::PickleBuilder;
using pickle::Value;

constexpr std::string_view kTarObject = "pickle", kTarTensors = "tensors",
                           kTarStorages = "storages", kTarSystem = "sys_info";
constexpr std::uint64_t kFirstOfRecord = 512;   // bytes that are read for a small pickle
constexpr std::size_t kMostOfTarTensor = 1024;  // dimensions

// The module and the name of a class.
using GlobalName = std::pair<std::string, std::string>;

// A storage, or a view of one.
struct TarStorage {
  std::string root;  // key of the storage that has the elements
  GlobalName type;
  std::uint64_t count = 0;                   // elements of the root
  std::uint64_t first = 0;                   // the element of the root at which this one begins
  std::optional<std::uint64_t> length = {};  // elements of a view
};

struct TarTensor {
  std::string storage;  // key
  std::vector<std::int64_t> shape, strides;
  std::int64_t offset = 0;
};

// ---- the values in the pickles ----

// The text of an integer, which may be stored as a text.
std::string key_field(const Pickle& p, Value value) {
  if (p.kind(value) == Kind::kInt) return std::to_string(p.integer(value));
  if (const auto number = unsigned_value(p, value)) return std::to_string(*number);
  if (is_text(p, value)) return std::string(name_field(p, value));
  data_loss("a key is not an integer");
}

std::span<const Value> items_field(const Pickle& p, Value value, std::size_t count,
                                   const char* what) {
  if ((p.kind(value) != Kind::kTuple && p.kind(value) != Kind::kList) ||
      p.items(value).size() != count)
    data_loss(fmt::format("{} is not described by {} values", what, count));
  return p.items(value);
}

GlobalName global_field(const Pickle& p, Value value) {
  if (p.kind(value) != Kind::kGlobal) data_loss("the class of a storage is not a class");
  return {std::string(p.module_of(value)), std::string(p.name_of(value))};
}

TorchElement element_of(const GlobalName& type) {
  const std::string text = type.first + "." + type.second;
  const auto element = element_of_storage(text);
  if (!element) throw Error(Code::kUnimplemented, text + " is not a storage that Cairn knows");
  return *element;
}

// ---- the members ----

// Reads a member from front to back.
class MemberReader {
 public:
  MemberReader(const TarMember& member, const ReadAtFn& read)
      : at_(member.offset), begin_(member.offset), end_(member.offset + member.size), read_(read) {}

  [[nodiscard]] std::uint64_t offset() const { return at_; }  // in the file
  [[nodiscard]] std::uint64_t left() const { return end_ - at_; }

  FoundPickle next_pickle(std::uint64_t first = kFirstOfRecord) {
    FoundPickle found{.member = {}, .begin = at_ - begin_, .pickle = {}};
    found.pickle = with_context([&] { return fmt::format("byte {}", found.begin); },
                                [&] { return pickle_at(at_, end_, read_, first); });
    at_ += found.pickle.end();
    return found;
  }
  Bytes next(std::uint64_t size, const char* what) {
    check(size, what);
    Bytes bytes(size);
    read_(at_, bytes);
    at_ += size;
    return bytes;
  }
  void skip(std::uint64_t size, const char* what) {
    check(size, what);
    at_ += size;
  }

 private:
  void check(std::uint64_t size, const char* what) const {
    if (size > left())
      data_loss(fmt::format("byte {}: {} takes {} bytes, but {} are left", at_ - begin_, what, size,
                            left()));
  }

  std::uint64_t at_, begin_, end_;
  const ReadAtFn& read_;
};

class TarFile {
 public:
  TarFile(std::uint64_t size, const ReadAtFn& read)
      : size_(size), read_(read), archive_(read_tar(size, read)) {
    for (const std::string_view name : {kTarObject, kTarTensors, kTarStorages})
      if (find(name) == nullptr)
        throw Error(Code::kInvalidArgument,
                    fmt::format("a tar archive without an object of PyTorch (a member {})", name));
  }

  TorchFile file() {
    file_.layout = "PyTorch file of the tar form";
    read_storages();
    read_tensors();
    in_member(kTarObject, [&](MemberReader& in) { file_.pickle = object(in); });
    note_the_rest();
    return std::move(file_);
  }

  std::vector<FoundPickle> pickles() {
    std::vector<FoundPickle> found;
    found_ = &found;
    for (const TarMember& member : archive_.members) {
      if (member.name == kTarStorages) read_storages();
      if (member.name == kTarTensors) read_tensors();
      if (member.name == kTarObject || member.name == kTarSystem)
        in_member(member.name, [&](MemberReader& in) { keep(in.next_pickle(kWhole)); });
    }
    return found;
  }

 private:
  static constexpr std::uint64_t kWhole = std::uint64_t{1} << 20U;

  [[nodiscard]] const TarMember* find(std::string_view name) const {
    const auto found = std::ranges::find(archive_.members, name, &TarMember::name);
    return found == archive_.members.end() ? nullptr : &*found;
  }

  // Calls f with a reader of the member.
  void in_member(std::string_view name, const std::function<void(MemberReader&)>& f) {
    with_context([&] { return std::string(name); },
                 [&] {
                   MemberReader in(*find(name), read_);
                   member_ = name;
                   f(in);
                 });
  }
  void end_member(const MemberReader& in) {
    if (in.left() != 0)
      file_.notes.push_back(
          fmt::format("{} bytes follow the values of the member {}", in.left(), member_));
  }

  // The next pickle of a member. All classes that it names would be imported.
  Pickle next(MemberReader& in, std::uint64_t first = kFirstOfRecord) {
    FoundPickle found = in.next_pickle(first);
    for (const Value global : found.pickle.globals())
      globals_.emplace(found.pickle.module_of(global), found.pickle.name_of(global));
    if (found_ != nullptr) keep(found);
    return std::move(found.pickle);
  }
  void keep(FoundPickle found) {
    found.member = member_;
    found_->push_back(std::move(found));
  }

  std::uint64_t next_count(MemberReader& in) {
    const Pickle p = next(in);
    return count_field(p, p.root());
  }

  void add_storage(const std::string& key, TarStorage storage) {
    if (!storages_.emplace(key, std::move(storage)).second) refuse_double(key);
  }
  [[noreturn]] static void refuse_double(const std::string& key) {
    data_loss(fmt::format("two objects have the key {}", key));
  }

  void read_storages() {
    in_member(kTarStorages, [&](MemberReader& in) {
      for (std::uint64_t count = next_count(in); count > 0; --count) read_storage(in);
      read_views(in);
      end_member(in);
    });
  }

  void read_storage(MemberReader& in) {
    const Pickle p = next(in);
    const auto items = items_field(p, p.root(), 3, "a storage");
    std::string key = key_field(p, items[0]);
    GlobalName type = global_field(p, items[2]);
    const std::uint64_t element = element_of(type).size;
    const Bytes header = in.next(8, "the size of a storage");
    const std::uint64_t count = ByteReader(header).u64();
    if (count > in.left() / element)
      data_loss(fmt::format("storage {} has {} elements of {} bytes, but {} bytes are left", key,
                            count, element, in.left()));
    RawArray array;
    array.runs.push_back({0, in.offset(), count * element});
    in.skip(count * element, "a storage");
    file_.storages.emplace(key, std::move(array));
    TarStorage storage{.root = key, .type = std::move(type), .count = count};
    add_storage(key, std::move(storage));
  }

  void read_views(MemberReader& in) {
    const Pickle p = next(in);
    if (p.kind(p.root()) != Kind::kList && p.kind(p.root()) != Kind::kTuple)
      data_loss("the views of storages are not a list");
    for (const Value view : p.items(p.root())) {
      const auto items = items_field(p, view, 4, "a view of a storage");
      const std::string root = key_field(p, items[1]);
      const auto of = storages_.find(root);
      if (of == storages_.end())
        data_loss(fmt::format("a view is of storage {}, which is missing", root));
      TarStorage storage = of->second;
      const std::uint64_t room = storage.length.value_or(storage.count);
      const std::uint64_t first = count_field(p, items[2]), length = count_field(p, items[3]);
      if (first > room || length > room - first)
        data_loss(fmt::format("a view has the elements {} to {} of storage {}, which has {}", first,
                              first + length, root, room));
      storage.first += first;
      storage.length = length;
      add_storage(key_field(p, items[0]), std::move(storage));
    }
  }

  void read_tensors() {
    in_member(kTarTensors, [&](MemberReader& in) {
      for (std::uint64_t count = next_count(in); count > 0; --count) read_tensor(in);
      end_member(in);
    });
  }

  void read_tensor(MemberReader& in) {
    const Pickle p = next(in);
    const auto items = items_field(p, p.root(), 3, "a tensor");
    std::string key = key_field(p, items[0]);
    TarTensor tensor{.storage = key_field(p, items[1]), .shape = {}, .strides = {}};
    const Bytes header = in.next(8, "the number of dimensions");
    const std::uint32_t dimensions = ByteReader(header).u32();
    if (dimensions > kMostOfTarTensor)
      data_loss(fmt::format("tensor {} has {} dimensions", key, dimensions));
    const Bytes numbers = in.next((2 * std::uint64_t{dimensions} + 1) * 8, "a tensor");
    ByteReader values(numbers);
    const auto number = [&] { return static_cast<std::int64_t>(values.u64()); };
    for (std::uint32_t i = 0; i < dimensions; ++i) tensor.shape.push_back(number());
    for (std::uint32_t i = 0; i < dimensions; ++i) tensor.strides.push_back(number());
    tensor.offset = number();
    if (storages_.contains(key) || !tensors_.emplace(key, std::move(tensor)).second)
      refuse_double(key);
  }

  // ---- the object ----

  // The object, with what a file of today has in place of the keys: a call that makes the tensor,
  // the persistent id of the storage.
  Pickle object(MemberReader& in) {
    Pickle found = next(in, kWhole);
    end_member(in);
    const auto count = static_cast<Value>(found.size());
    const Value root = found.root();
    const std::uint64_t end = found.end();
    const int protocol = found.protocol();
    PickleBuilder builder(std::move(found), {});
    for (const auto& [module, name] : globals_) global(builder, {module, name});
    std::unordered_map<std::string, Value> known;
    for (Value value = 0; value < count; ++value) {
      if (builder.made().kind(value) != Kind::kPersistent) continue;
      const Value id = builder.made().items(value)[0];
      builder.replace(value, named_object(builder, id, known));
    }
    return std::move(builder).finish(root, end, protocol);
  }

  Value named_object(PickleBuilder& builder, Value id,
                     std::unordered_map<std::string, Value>& known) const {
    const Pickle& p = builder.made();
    // (class, file, source) of a module
    if (p.kind(id) == Kind::kTuple && !p.items(id).empty()) return p.items(id)[0];
    const std::string key = key_field(p, id);
    if (const auto made = known.find(key); made != known.end()) return made->second;
    Value made = 0;
    if (const auto tensor = tensors_.find(key); tensor != tensors_.end())
      made = tensor_value(builder, tensor->second);
    else
      made = storage_value(builder, key);
    known.emplace(key, made);
    return made;
  }

  Value tensor_value(PickleBuilder& builder, const TarTensor& tensor) const {
    const auto numbers = [&](const std::vector<std::int64_t>& values) {
      std::vector<Value> items;
      items.reserve(values.size());
      for (const std::int64_t value : values) items.push_back(builder.number(Kind::kInt, value));
      return builder.collection(Kind::kTuple, items);
    };
    const std::array arguments = {storage_value(builder, tensor.storage),
                                  builder.number(Kind::kInt, tensor.offset), numbers(tensor.shape),
                                  numbers(tensor.strides)};
    return builder.object(Kind::kCall, global(builder, {"torch._utils", "_rebuild_tensor"}),
                          builder.collection(Kind::kTuple, arguments), pickle::kNoneValue);
  }

  // ('storage', class, key, location, count[, (key of the view, first, length)])
  Value storage_value(PickleBuilder& builder, const std::string& key) const {
    const auto found = storages_.find(key);
    if (found == storages_.end())
      data_loss(fmt::format("{} is the key of an object, which is missing", key));
    const TarStorage& storage = found->second;
    const auto text = [&](std::string_view value) { return builder.own_bytes(Kind::kText, value); };
    const auto number = [&](std::uint64_t value) {
      return builder.number(Kind::kInt, static_cast<std::int64_t>(value));
    };
    std::vector<Value> items = {text("storage"), global(builder, storage.type), text(storage.root),
                                text("cpu"), number(storage.count)};
    if (storage.length) {
      const std::array view = {text(key), number(storage.first), number(*storage.length)};
      items.push_back(builder.collection(Kind::kTuple, view));
    }
    const Value id = builder.collection(Kind::kTuple, items);
    return builder.collection(Kind::kPersistent, {&id, 1});
  }

  static Value global(PickleBuilder& builder, const GlobalName& name) {
    const Value module = builder.own_bytes(Kind::kText, name.first);
    return builder.global(module, builder.own_bytes(Kind::kText, name.second));
  }

  // What PyTorch does not look at.
  void note_the_rest() {
    for (const TarMember& member : archive_.members)
      if (member.name != kTarObject && member.name != kTarTensors && member.name != kTarStorages &&
          member.name != kTarSystem)
        file_.notes.push_back(
            fmt::format("its member \"{}\" is not read", printable_utf8(member.name)));
    // tarfile ends an archive with two blocks of zeros, and fills the last 20 blocks with more.
    constexpr std::uint64_t kMostPadding = 21 * kTarBlock;
    const std::uint64_t rest = size_ - archive_.end;
    Bytes bytes(std::min(rest, kMostPadding));
    read_(archive_.end, bytes);
    if (rest > kMostPadding ||
        std::ranges::any_of(bytes, [](std::byte b) { return b != std::byte{0}; }))
      file_.notes.push_back(fmt::format("{} bytes follow the end of the archive", rest));
  }

  std::uint64_t size_;
  const ReadAtFn& read_;
  TarArchive archive_;
  TorchFile file_;
  std::string member_;                         // that is being read
  std::vector<FoundPickle>* found_ = nullptr;  // where to keep the pickles
  std::set<GlobalName> globals_;               // that the pickles name
  std::unordered_map<std::string, TarStorage> storages_;
  std::unordered_map<std::string, TarTensor> tensors_;
};

}  // namespace

TorchFile read_tar_file(std::uint64_t size, const ReadAtFn& read) {
  return TarFile(size, read).file();
}

std::vector<FoundPickle> read_tar_pickles(std::uint64_t size, const ReadAtFn& read) {
  return TarFile(size, read).pickles();
}

}  // namespace cairn::inline v0::pytorch

// host_handlers.cc -- leaves in host memory: arrays, numbers, strings, placeholders.
#include <cairn/array/arena.h>
#include <cairn/array/byte_count.h>
#include <cairn/array/staging.h>
#include <cairn/handlers/read_leaves.h>
#include <cairn/orbax/handlers.h>
#include <cairn/tree/python_number.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <type_traits>

namespace cairn::inline v0 {
namespace {

using handlers::LeafRead;

// Names in an item's folder that are not free for a file of strings.
constexpr std::array<std::string_view, 8> kOtherFiles{
    ".", "..", "_METADATA", "_sharding", "manifest.ocdbt", "array_metadatas", "d", "checkpoint"};

// Private copies of arrays, for a save that continues while the caller may change the originals.
class HostCopies {
 public:
  HostCopies(std::span<const Tree> originals, const ItemWriter& writer)
      : memory_(memory_for(originals, writer)) {}

  // Returns the memory of the copy, which run() fills.
  std::shared_ptr<const std::byte> add(const Array& original) {
    const ByteView bytes = original.bytes();
    std::byte* const to = memory_->data() + used_;
    for (std::size_t at = 0; at < bytes.size(); at += kTask) add_piece(bytes, at, to);
    used_ += padded_size(bytes.size());
    return {memory_, to};
  }
  void run(const ItemWriter& writer) const {
    writer.run_tasks(tasks_.size(), [&](std::size_t i) {
      for (const Piece& piece : tasks_[i]) std::memcpy(piece.to, piece.from, piece.size);
    });
  }

 private:
  // The most bytes that one task copies.
  static constexpr std::size_t kTask = std::size_t{4} << 20U;
  struct Piece {
    const std::byte* from;
    std::byte* to;
    std::size_t size;
  };

  static std::shared_ptr<Buffer> memory_for(std::span<const Tree> originals,
                                            const ItemWriter& writer) {
    std::size_t bytes = 0;
    for (const Tree& tree : originals)
      if (const Array* array = tree.array()) bytes += padded_size(array->bytes().size());
    const auto* owner = dynamic_cast<const StagingOwner*>(&writer);
    if (bytes == 0 || owner == nullptr || owner->staging() == nullptr)
      return std::make_shared<Buffer>(bytes);
    return owner->staging()->take(bytes);
  }

  void add_piece(ByteView from, std::size_t at, std::byte* to) {
    const std::size_t size = std::min(kTask, from.size() - at);
    if (tasks_.empty() || in_last_ + size > kTask) {
      tasks_.emplace_back();
      in_last_ = 0;
    }
    tasks_.back().push_back({from.data() + at, to + at, size});
    in_last_ += size;
  }

  std::shared_ptr<Buffer> memory_;
  std::size_t used_ = 0;  // bytes of it
  std::vector<std::vector<Piece>> tasks_;
  std::size_t in_last_ = 0;  // bytes of the last task
};

// Reads whole arrays in the requested types.
std::vector<Array> read_whole(std::span<const ParamInfo> infos,
                              std::span<const AnyRestoreArgs> args,
                              const std::string& metadata_key) {
  check_input_arguments({infos.size(), args.size()});
  const ItemReader& reader = handlers::reader_of(infos);
  const std::vector<TensorInfo> stored = handlers::stored_arrays(reader, infos, metadata_key);
  ArrayArena arena;
  for (std::size_t i = 0; i < infos.size(); ++i) {
    const auto dtype = handlers::dtype_of(args[i]);
    arena.expect(dtype ? byte_count(stored[i].shape, *dtype) : stored[i].nbytes);
  }
  std::vector<Array> arrays;
  std::vector<LeafRead> reads;
  for (std::size_t i = 0; i < infos.size(); ++i) {
    const DType dtype = handlers::dtype_of(args[i]).value_or(stored[i].dtype);
    const std::size_t size = dtype == stored[i].dtype ? stored[i].element_size : dtype_size(dtype);
    auto [array, out] = arena.allocate(dtype, size, stored[i].shape);
    arrays.push_back(std::move(array));
    reads.push_back({infos[i].name, &stored[i], Box::whole(stored[i].shape), std::move(out)});
  }
  handlers::read_leaves(reader, infos, reads);
  return arrays;
}

NumpyScalar storable_number(const ParamInfo& info, const Tree& leaf) {
  const auto number = number_of(leaf);
  const bool is_complex = std::holds_alternative<std::complex<double>>(leaf.value());
  if (number && !is_complex) return *number;
  const std::string place = info.name.empty() ? "" : info.name + ": ";
  if (std::holds_alternative<Bytes>(leaf.value()))
    throw Error(Code::kInvalidArgument,
                place + "bytes cannot be stored; convert them to an array of uint8 or a string");
  throw Error(Code::kInvalidArgument,
              place + std::string(is_complex ? "a complex number without a dtype" : "this value") +
                  " cannot be stored as an array of rank 0; convert it to an array");
}

// The number without its fraction. Python's int() raises for NaN and infinities, too; where it has
// a longer integer, Tree has none.
std::int64_t to_integer(double value) {
  constexpr double kEnd = 0x1p63;
  if (!(value >= -kEnd && value < kEnd))
    throw Error(Code::kInvalidArgument, "the number " + std::to_string(value) +
                                            " cannot be restored as an integer of 64 bits");
  return static_cast<std::int64_t>(value);
}

template <class T>
T as_number(const Tree& number) {
  return std::visit(
      [](const auto& value) -> T {
        using Value = std::decay_t<decltype(value)>;
        if constexpr (std::is_floating_point_v<Value> && std::is_same_v<T, std::int64_t>)
          return to_integer(value);
        else if constexpr (std::is_arithmetic_v<Value>)
          return static_cast<T>(value);
        else
          throw Error(Code::kInvalidArgument,
                      "a number that is not real cannot be restored as the requested type");
      },
      number.value());
}

// Converts the number as Python's type(value) does, if a type was requested.
Tree converted(Tree number, const AnyRestoreArgs& args) {
  const auto type = handlers::restore_type_of(args);
  if (!type || type->type() == nullptr) return number;
  if (*type->type() == typeid(bool)) return Tree(as_number<bool>(number));
  if (*type->type() == typeid(std::int64_t))
    return std::get_if<std::uint64_t>(&number.value()) != nullptr
               ? number
               : Tree(as_number<std::int64_t>(number));
  if (*type->type() == typeid(double)) return Tree(as_number<double>(number));
  return number;
}

std::shared_future<void> written(const ItemWriter& writer) { return writer.written(); }

}  // namespace

NumpyHandler::NumpyHandler() : NumpyHandler(Options{}) {}
NumpyHandler::NumpyHandler(Options options) : options_(std::move(options)) {}

std::vector<ValueMetadata> NumpyHandler::metadata(std::span<const ParamInfo> infos) const {
  return handlers::array_value_metadata(infos, typestr(), options_.metadata_key);
}

TypeHandler::Futures NumpyHandler::serialize(std::span<const Tree> values,
                                             std::span<const ParamInfo> infos,
                                             std::span<const SaveArgs> args) const {
  check_input_arguments({values.size(), infos.size(), args.size()});
  ItemWriter& writer = handlers::writer_of(infos);
  const bool copies =
      options_.deepcopy_host_arrays && writer.is_background() && writer.process().is_primary;
  HostCopies copied(copies ? values : std::span<const Tree>(), writer);
  // One owner for all arrays: a control block for each would cost more than a small array.
  const auto lent = std::make_shared<std::vector<Array>>();
  if (!copies) lent->reserve(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Array* array = values[i].array();
    if (array == nullptr) throw Error(Code::kInvalidArgument, infos[i].name + ": is not an array");
    StoreArray store = handlers::store_array(infos[i], args[i], array->dtype(), array->shape());
    store.metadata_key = options_.metadata_key;
    if (copies) {
      const auto copy = copied.add(*array);
      store.data = copy.get();
      store.owner = copy;
    } else {
      lent->push_back(*array);
      store.data = array->bytes().data();
      store.owner = lent;
    }
    writer.add_array(std::move(store));
  }
  copied.run(writer);
  return {written(writer)};
}

std::vector<Tree> NumpyHandler::deserialize(std::span<const ParamInfo> infos,
                                            std::span<const AnyRestoreArgs> args) const {
  std::vector<Tree> out;
  for (Array& array : read_whole(infos, args, options_.metadata_key))
    out.emplace_back(std::move(array));
  return out;
}

ScalarHandler::ScalarHandler() : ScalarHandler(Options{}) {}
ScalarHandler::ScalarHandler(Options options) : options_(std::move(options)) {}

std::vector<ValueMetadata> ScalarHandler::metadata(std::span<const ParamInfo> infos) const {
  auto out = handlers::array_value_metadata(infos, typestr(), options_.metadata_key);
  for (ValueMetadata& entry : out) entry.storage.reset();
  return out;
}

TypeHandler::Futures ScalarHandler::serialize(std::span<const Tree> values,
                                              std::span<const ParamInfo> infos,
                                              std::span<const SaveArgs> args) const {
  check_input_arguments({values.size(), infos.size(), args.size()});
  ItemWriter& writer = handlers::writer_of(infos);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto number = std::make_shared<const NumpyScalar>(storable_number(infos[i], values[i]));
    StoreArray store = handlers::store_array(infos[i], args[i], number->dtype, {});
    store.metadata_key = options_.metadata_key;
    store.data = number->value.data();
    store.owner = number;
    writer.add_array(std::move(store));
  }
  return {written(writer)};
}

std::vector<Tree> ScalarHandler::deserialize(std::span<const ParamInfo> infos,
                                             std::span<const AnyRestoreArgs> args) const {
  std::vector<Tree> out;
  const std::vector<Array> arrays = read_whole(infos, args, options_.metadata_key);
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    if (!arrays[i].shape().empty())
      throw Error(Code::kInvalidArgument, infos[i].name + ": has shape " +
                                              shape_text(arrays[i].shape()) +
                                              ", so it is not a scalar");
    out.push_back(with_context([&] { return infos[i].name; },
                               [&] { return converted(python_number(arrays[i]), args[i]); }));
  }
  return out;
}

StringHandler::StringHandler() : StringHandler(Options{}) {}

StringHandler::StringHandler(Options options) : options_(std::move(options)) {
  const std::string& name = options_.filename;
  const auto is_taken = [&](std::string_view other) { return name == other; };
  if (name.find('/') != std::string::npos ||
      std::any_of(kOtherFiles.begin(), kOtherFiles.end(), is_taken))
    throw Error(Code::kInvalidArgument,
                "'" + name +
                    "' cannot be the name of a file of strings: it is a path, or the "
                    "name of another file of an item; give a plain file name");
}

std::vector<ValueMetadata> StringHandler::metadata(std::span<const ParamInfo> infos) const {
  std::vector<ValueMetadata> out;
  for (const ParamInfo& info : infos) {
    ValueMetadata& entry = out.emplace_back();
    entry.typestr = typestr();
    entry.name = info.name;
    entry.directory = info.parent_dir;
  }
  return out;
}

TypeHandler::Futures StringHandler::serialize(std::span<const Tree> values,
                                              std::span<const ParamInfo> infos,
                                              std::span<const SaveArgs> args) const {
  check_input_arguments({values.size(), infos.size(), args.size()});
  ItemWriter& writer = handlers::writer_of(infos);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto* text = std::get_if<std::string>(&values[i].value());
    if (text == nullptr) throw Error(Code::kInvalidArgument, infos[i].name + ": is not a string");
    writer.add_string_in(options_.filename, infos[i].name, *text);
  }
  return {written(writer)};
}

std::vector<Tree> StringHandler::deserialize(std::span<const ParamInfo> infos,
                                             std::span<const AnyRestoreArgs> args) const {
  check_input_arguments({infos.size(), args.size()});
  const ItemReader& reader = handlers::reader_of(infos);
  std::vector<Tree> out;
  for (const ParamInfo& info : infos)
    out.emplace_back(reader.string_in(options_.filename, info.name));
  return out;
}

std::vector<ValueMetadata> PlaceholderHandler::metadata(
    std::span<const ParamInfo> /*infos*/) const {
  throw Error(Code::kUnimplemented, "placeholders have no metadata: nothing is stored for them");
}

TypeHandler::Futures PlaceholderHandler::serialize(std::span<const Tree> /*values*/,
                                                   std::span<const ParamInfo> /*infos*/,
                                                   std::span<const SaveArgs> /*args*/) const {
  throw Error(
      Code::kUnimplemented,
      "placeholders are recorded by the checkpoint's metadata; there is nothing to serialize");
}

std::vector<Tree> PlaceholderHandler::deserialize(std::span<const ParamInfo> infos,
                                                  std::span<const AnyRestoreArgs> /*args*/) const {
  return std::vector<Tree>(infos.size(), Tree(Placeholder{}));
}

}  // namespace cairn::inline v0

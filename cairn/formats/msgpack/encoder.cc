// encoder.cc -- walks the tree twice. The first walk checks and measures it, because a tuple's size
// precedes its elements; the second walk writes.
#include <cairn/formats/msgpack/encoder.h>

#include <cairn/base/errors.h>
#include <cairn/base/utf8.h>
#include <cairn/formats/msgpack/content.h>
#include <cairn/formats/msgpack/sink.h>
#include <cairn/formats/output/machine_order.h>
#include <cairn/orbax/sharding.h>
#include <cairn/tree/names.h>

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace cairn::inline v0 {
namespace {

constexpr std::size_t kMaxDepth = 1000;  // as in the rest of Cairn; the packages' own limit is 1024

MsgpackHead sized(MsgpackType type, std::uint64_t length) {
  return {.type = type, .length = length};
}
MsgpackHead truth_head(bool truth) { return {.type = MsgpackType::kBool, .truth = truth}; }
MsgpackHead real_head(double real) { return {.type = MsgpackType::kFloat, .number = real}; }
MsgpackHead extension_head(std::uint64_t size, std::int8_t code) {
  return {.type = MsgpackType::kExt, .length = size, .ext = code};
}

class Encoder {
 public:
  Encoder(std::span<const TensorSource> sources, const MsgpackOptions& options)
      : sources_(sources), options_(options) {}

  MsgpackPlan run(const Tree& tree) {
    const auto walk = [&] {
      with_context([&] { return leaf_text(path_); }, [&] { value(tree, Place::kDict); });
    };
    walk();
    sink_.start_writing();
    walk();
    MsgpackPlan plan = std::move(sink_).take();
    plan.gathered = std::move(gathered_);
    return plan;
  }

 private:
  enum class Place : std::uint8_t { kDict, kSequence };  // kDict: large arrays are chunked here

  void value(const Tree& tree, Place place) {
    std::visit([&](const auto& v) { put(v, place); }, tree.value());
  }

  // ---- leaves ----

  void put(bool truth, Place /*place*/) { sink_.head(truth_head(truth)); }
  void put(std::int64_t i, Place /*place*/) { sink_.head(msgpack_integer(i)); }
  void put(std::uint64_t u, Place /*place*/) { sink_.head(sized(MsgpackType::kUint, u)); }
  void put(double real, Place /*place*/) { sink_.head(real_head(real)); }

  void put(const std::complex<double>& z, Place /*place*/) {
    constexpr std::uint64_t kContent = 1 + 9 + 9;  // the head of an array and two floats
    sink_.head(extension_head(kContent, kMsgpackComplex));
    sink_.head(sized(MsgpackType::kArray, 2));
    sink_.head(real_head(z.real()));
    sink_.head(real_head(z.imag()));
  }

  void put(const std::string& text, Place /*place*/) {
    if (!valid_utf8(text)) invalid_argument("a string is not UTF-8, which msgpack requires");
    sink_.text(text);
  }

  void put(const Bytes& bytes, Place /*place*/) {
    sink_.head(sized(MsgpackType::kBin, bytes.size()));
    sink_.content(in_memory(bytes));
  }

  void put(const NumpyScalar& scalar, Place /*place*/) {
    if (scalar.dtype == DType::kOpaque)
      invalid_argument("a NumPy scalar of a type that Cairn does not interpret cannot be written");
    const MsgpackRun run = in_memory(ByteView(scalar.value).first(dtype_size(scalar.dtype)));
    ndarray(MsgpackArray::of(scalar.dtype, {}, run), kMsgpackNumpyScalar);
  }

  void put(const Array& array, Place place) {
    if (array.dtype() == DType::kOpaque)
      invalid_argument(
          "an array whose elements Cairn does not interpret has no dtype name, so it cannot be "
          "written");
    put_array(MsgpackArray::of(array.dtype(), array.shape(), in_memory(array.bytes())), place);
  }

  void put(const Placeholder& /*value*/, Place /*place*/) {
    refuse_leaf("a placeholder (Ellipsis)");
  }

  void put(const CustomLeaf& custom, Place place) {
    if (const auto* source = custom.get<SourceLeaf>()) return put_source(*source, place);
    if (const auto* sharded = custom.get<ShardedArray>()) return put_sharded(*sharded, place);
    if (const auto* array = custom.get<NumpyArray>()) return put_numpy(*array, place);
    const auto* time = custom.get<MsgpackTimestamp>();
    if (time == nullptr) refuse_leaf("a leaf of a custom C++ type");
    const Bytes content = timestamp_content(*time);
    sink_.head(extension_head(content.size(), kMsgpackTimestamp));
    sink_.copy(content);
  }

  // Gathers the array in the first walk and writes it in the second one.
  void put_sharded(const ShardedArray& sharded, Place place) {
    if (!sharded.random_key_impl.empty())
      invalid_argument("a typed PRNG key cannot be written; write its key data");
    if (!sink_.writing()) gathered_.push_back(gather_shards(sharded));
    put(sink_.writing() ? gathered_[next_gathered_++] : gathered_.back(), place);
  }

  void put_numpy(const NumpyArray& array, Place place) {
    const MsgpackArray part = numpy_part(array, in_memory(array.bytes));
    if (array.scalar) return ndarray(part, kMsgpackNumpyScalar);
    put_array(part, place);
  }

  void put_source(const SourceLeaf& leaf, Place place) {
    if (leaf.index >= sources_.size())
      invalid_argument(fmt::format("source {} is out of range: there are {} sources", leaf.index,
                                   sources_.size()));
    const TensorSource& source = sources_[leaf.index];
    if (source.dtype == DType::kOpaque)
      invalid_argument(
          "an array whose elements Cairn does not interpret has no dtype name, so it cannot be "
          "written");
    std::uint64_t nbytes = 0;
    if (__builtin_mul_overflow(static_cast<std::uint64_t>(element_count(source.shape)),
                               dtype_size(source.dtype), &nbytes))
      invalid_argument(fmt::format("an array of shape {} has more bytes than 64 bits can count",
                                   shape_text(source.shape)));
    const MsgpackRun run{.place = MsgpackRun::Place::kSource, .source = leaf.index, .size = nbytes};
    if (leaf.as == SourceLeaf::As::kArray)
      return put_array(MsgpackArray::of(source.dtype, source.shape, run), place);
    sink_.head(sized(MsgpackType::kBin, nbytes));
    sink_.content(run);
  }

  [[noreturn]] static void refuse_leaf(std::string_view what) {
    invalid_argument(
        fmt::format("{} cannot be written: msgpack holds dicts, lists, arrays, NumPy scalars, "
                    "numbers, strings, bytes and None",
                    what));
  }

  // ---- arrays ----

  void put_array(const MsgpackArray& array, Place place) {
    if (place == Place::kDict && array.run.size > options_.chunk_bytes)
      chunked(array);
    else
      ndarray(array, kMsgpackArray);
  }

  void ndarray(const MsgpackArray& array, std::int8_t code) {
    const Bytes front = array_front(array);
    sink_.head(extension_head(front.size() + array.run.size, code));
    sink_.copy(front);
    sink_.content(array.run);
  }

  void chunked(const MsgpackArray& array) {
    const std::uint64_t length =
        std::max<std::uint64_t>(1, options_.chunk_bytes / array.element_size) * array.element_size;
    sink_.head(sized(MsgpackType::kMap, 3));
    sink_.text(kMsgpackChunkMarker);
    sink_.head(truth_head(true));
    sink_.text("shape");
    sink_.head(sized(MsgpackType::kMap, array.shape.size()));
    for (std::size_t d = 0; d < array.shape.size(); ++d) {
      sink_.text(std::to_string(d));
      sink_.head(msgpack_integer(array.shape[d]));
    }
    sink_.text("chunks");
    sink_.head(sized(MsgpackType::kMap, (array.run.size + length - 1) / length));
    for (std::uint64_t at = 0, i = 0; at < array.run.size; at += length, ++i) {
      sink_.text(std::to_string(i));
      chunk(array, at, std::min(length, array.run.size - at));
    }
  }

  // Writes the bytes [at, at + size) as a flat array.
  void chunk(const MsgpackArray& array, std::uint64_t at, std::uint64_t size) {
    MsgpackRun run = array.run;
    run.size = size;
    run.offset += at;
    if (run.place == MsgpackRun::Place::kMemory) run.data += at;
    const auto count = static_cast<std::int64_t>(size / array.element_size);
    ndarray({array.dtype_name, array.element_size, {&count, 1}, run}, kMsgpackArray);
  }

  // ---- containers ----

  using Member = std::pair<std::string_view, const Tree*>;

  void put(EmptyNode node, Place /*place*/) {
    const bool tuple = node == EmptyNode::kTuple || node == EmptyNode::kNamedTuple;
    if (node == EmptyNode::kNone) return sink_.head({});
    if (tuple && options_.dialect != MsgpackDialect::kFlaxState) return put_tuple({});
    if (node == EmptyNode::kList && options_.dialect != MsgpackDialect::kFlaxState)
      return sink_.head(sized(MsgpackType::kArray, 0));
    sink_.head(sized(MsgpackType::kMap, 0));
  }

  void put(const Tree::List& list, Place /*place*/) {
    if (options_.dialect == MsgpackDialect::kFlaxState) return put_numbered(list);
    sink_.head(sized(MsgpackType::kArray, list.size()));
    for (std::size_t i = 0; i < list.size(); ++i)
      below({std::to_string(i), KeyType::kSequence}, list[i], Place::kSequence);
  }

  void put(const Tree::Dict& dict, Place place) { put_members(dict, place); }

  void put(const Tree::Tuple& tuple, Place /*place*/) {
    if (options_.dialect == MsgpackDialect::kFlaxState) return put_numbered(tuple.items);
    std::vector<Member> items;
    for (const auto& item : tuple.items) items.emplace_back("", &item);
    put_tuple(items);
  }

  void put(const Tree::NamedTuple& named, Place /*place*/) {
    if (options_.dialect == MsgpackDialect::kFlaxState)
      return put_members(named.fields, Place::kDict);
    std::vector<Member> items;
    for (const auto& [name, field] : named.fields) items.emplace_back(name, &field);
    put_tuple(items);
  }

  void put_tuple(std::span<const Member> items) {
    if (options_.dialect == MsgpackDialect::kFlax)
      invalid_argument(
          "flax's msgpack_serialize does not write tuples; use a list, or the dialect of flax's "
          "to_bytes or of Orbax");
    const std::size_t tuple = sink_.begin_tuple();
    sink_.head(sized(MsgpackType::kArray, items.size()));
    for (std::size_t i = 0; i < items.size(); ++i)
      below({std::to_string(i), KeyType::kSequence}, *items[i].second, Place::kSequence);
    sink_.end_tuple(tuple);
  }

  // Writes the elements as a dict whose keys are their numbers.
  void put_numbered(const Tree::List& items) {
    std::vector<std::string> names;
    names.reserve(items.size());
    for (std::size_t i = 0; i < items.size(); ++i) names.push_back(std::to_string(i));
    std::vector<Member> members;
    for (std::size_t i = 0; i < items.size(); ++i) members.emplace_back(names[i], &items[i]);
    put_map(std::move(members), Place::kDict);
  }

  void put_members(const Tree::Dict& dict, Place place) {
    std::vector<Member> members;
    members.reserve(dict.size());
    for (const auto& [key, child] : dict) members.emplace_back(key, &child);
    put_map(std::move(members), place);
  }

  void put_map(std::vector<Member> members, Place place) {
    if (!sink_.writing()) check_keys(members);
    if (options_.order == DictOrder::kSorted)
      std::stable_sort(members.begin(), members.end(),
                       [](const Member& a, const Member& b) { return a.first < b.first; });
    sink_.head(sized(MsgpackType::kMap, members.size()));
    for (const auto& [key, child] : members) {
      sink_.text(key);
      below({std::string(key), KeyType::kDict}, *child, place);
    }
  }

  static void check_keys(const std::vector<Member>& members) {
    std::vector<std::string_view> keys;
    for (const auto& [key, child] : members) {
      if (!valid_utf8(key)) invalid_argument("a key is not UTF-8, which msgpack requires");
      keys.push_back(key);
    }
    std::sort(keys.begin(), keys.end());
    if (const auto twice = std::adjacent_find(keys.begin(), keys.end()); twice != keys.end())
      invalid_argument(fmt::format("the key \"{}\" appears twice", *twice));
  }

  void below(Key key, const Tree& child, Place place) {
    path_.push_back(std::move(key));
    if (path_.size() > kMaxDepth)
      invalid_argument(fmt::format("nested deeper than {} levels", kMaxDepth));
    value(child, place);
    path_.pop_back();
  }

  std::span<const TensorSource> sources_;
  const MsgpackOptions& options_;
  MsgpackSink sink_;
  std::vector<Array> gathered_;  // in the order of the walk
  std::size_t next_gathered_ = 0;
  KeyPath path_;
};

}  // namespace

MsgpackPlan plan_msgpack(const Tree& tree, std::span<const TensorSource> sources,
                         const MsgpackOptions& options) {
  check_writes_machine_order();
  return Encoder(sources, options).run(tree);
}

}  // namespace cairn::inline v0

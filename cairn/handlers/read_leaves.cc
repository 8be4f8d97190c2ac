// read_leaves.cc -- reads stored arrays for handlers.
#include <cairn/handlers/read_leaves.h>

#include <cairn/array/box.h>
#include <cairn/array/cast_all.h>
#include <cairn/base/executor.h>
#include <cairn/handlers/byte_limiter.h>

#include <algorithm>
#include <utility>

namespace cairn::inline v0::handlers {
namespace {

// Bytes of stored elements held during conversion, unless a limit is lower.
constexpr std::int64_t kConverted = std::int64_t{256} << 20U;

// The number of rows of the first dimension that take at most `held_bytes`; at least one.
std::int64_t rows_at_once(const LeafRead& read, std::int64_t held_bytes) {
  const std::int64_t row = element_count(read.box.shape) /
                           std::max<std::int64_t>(1, read.box.shape[0]) *
                           static_cast<std::int64_t>(dtype_size(read.stored));
  return std::max<std::int64_t>(1, held_bytes / std::max<std::int64_t>(1, row));
}

void convert(const ItemReader& reader, const LeafRead& read, const Box& part) {
  Array stored = Array::allocate(read.stored, part.shape);
  const ItemReader::Read one{read.name, part, stored.mutable_view()};
  reader.read(std::span(&one, 1));
  const Cast cast{stored.view(), subview(read.out, relative_to(part, read.box.origin))};
  cast_all(std::span(&cast, 1), default_executor());
}

// Converts an array that is too large to be converted whole, part by part.
void convert_in_parts(const ItemReader& reader, const LeafRead& read, std::int64_t held_bytes) {
  const std::int64_t step = rows_at_once(read, held_bytes);
  for (std::int64_t row = 0; row < read.box.shape[0]; row += step) {
    Box part = read.box;
    part.origin[0] += row;
    part.shape[0] = std::min(step, read.box.shape[0] - row);
    convert(reader, read, part);
  }
}

// Converts arrays that are small together, as one plan.
void convert_together(const ItemReader& reader, std::span<const LeafRead* const> reads) {
  std::vector<Array> stored;
  std::vector<ItemReader::Read> plan;
  for (const LeafRead* read : reads) {
    stored.push_back(Array::allocate(read->stored, read->box.shape));
    plan.push_back({read->name, read->box, stored.back().mutable_view()});
  }
  reader.read(plan);
  std::vector<Cast> casts;
  for (std::size_t i = 0; i < reads.size(); ++i) casts.push_back({stored[i].view(), reads[i]->out});
  cast_all(casts, default_executor());
}

// Whether an entry of a partition spec leaves a dimension whole: all its axes belong to the mesh
// and have one device.
bool splits_nothing(const Mesh& mesh, const std::vector<std::string>& entry) {
  return std::all_of(entry.begin(), entry.end(), [&](const std::string& axis) {
    const auto found = std::find(mesh.axis_names.begin(), mesh.axis_names.end(), axis);
    const auto number = static_cast<std::size_t>(found - mesh.axis_names.begin());
    return number < mesh.shape.size() && mesh.shape[number] == 1;
  });
}

template <class Pointer>
auto& shared_of(std::span<const ParamInfo> infos, Pointer ParamInfo::*member, const char* what) {
  for (const ParamInfo& info : infos) {
    if (info.*member == nullptr || (info.*member) != (infos[0].*member))
      throw Error(Code::kInvalidArgument,
                  info.name + ": has no " + what +
                      ", or a different one than the other leaves of the call");
    if (!info.is_ocdbt_checkpoint || info.is_ocdbt_checkpoint != infos[0].is_ocdbt_checkpoint)
      throw Error(Code::kInvalidArgument, info.name +
                                              ": whether the checkpoint uses OCDBT must be "
                                              "known, and all leaves of a call must agree");
  }
  return *(infos[0].*member);
}

}  // namespace

void read_leaves(const ItemReader& reader, std::span<const LeafRead> reads,
                 std::int64_t held_bytes) {
  std::vector<ItemReader::Read> direct;
  std::vector<const LeafRead*> together;
  std::int64_t held = 0;
  const auto flush = [&] {
    if (!together.empty()) convert_together(reader, together);
    together.clear();
    held = 0;
  };
  for (const LeafRead& read : reads) {
    if (read.out.dtype == read.stored) {
      direct.push_back({read.name, read.box, read.out});
      continue;
    }
    with_context([&] { return std::string(read.name); },
                 [&] {
                   if (read.stored == DType::kOpaque || read.out.dtype == DType::kOpaque)
                     throw Error(Code::kInvalidArgument,
                                 "elements that Cairn does not interpret cannot be converted");
                   const std::int64_t size = element_count(read.box.shape) *
                                             static_cast<std::int64_t>(dtype_size(read.stored));
                   if (size > held_bytes && !read.box.shape.empty())
                     return convert_in_parts(reader, read, held_bytes);
                   if (held + size > held_bytes) flush();
                   held += size;
                   together.push_back(&read);
                 });
  }
  flush();
  if (!direct.empty()) reader.read(direct);
}

std::int64_t conversion_bytes(std::span<const ParamInfo> infos) {
  std::int64_t most = kConverted;
  for (const ParamInfo& info : infos)
    if (info.byte_limiter) most = std::min(most, info.byte_limiter->limit().value_or(most));
  return most;
}

std::vector<TensorInfo> stored_arrays(const ItemReader& reader, std::span<const ParamInfo> infos,
                                      const std::string& metadata_key) {
  std::vector<std::string_view> names;
  names.reserve(infos.size());
  for (const ParamInfo& info : infos) names.push_back(info.name);
  return reader.arrays_under(names, metadata_key);
}

std::vector<ValueMetadata> array_value_metadata(std::span<const ParamInfo> infos,
                                                std::string_view typestr,
                                                const std::string& metadata_key) {
  std::vector<ValueMetadata> out;
  out.reserve(infos.size());
  const std::vector<TensorInfo> stored = stored_arrays(reader_of(infos), infos, metadata_key);
  for (std::size_t i = 0; i < infos.size(); ++i) {
    ValueMetadata& entry = out.emplace_back();
    entry.typestr = typestr;
    entry.name = infos[i].name;
    entry.directory = infos[i].parent_dir;
    entry.shape = stored[i].shape;
    entry.dtype = stored[i].dtype;
    entry.storage = StorageMetadata{stored[i].chunk_shape, std::nullopt,
                                    infos[i].reader->zarr_metadata(infos[i].name)};
  }
  return out;
}

const ItemReader& reader_of(std::span<const ParamInfo> infos) {
  return shared_of(infos, &ParamInfo::reader, "reader");
}
ItemWriter& writer_of(std::span<const ParamInfo> infos) {
  return shared_of(infos, &ParamInfo::writer, "writer");
}

std::optional<DType> dtype_of(const AnyRestoreArgs& args) {
  return std::visit([](const auto& of) { return of.dtype; }, args);
}

std::optional<RestoreType> restore_type_of(const AnyRestoreArgs& args) {
  return std::visit([](const auto& of) { return of.restore_type; }, args);
}

Sharding for_rank(Sharding sharding, std::size_t rank) {
  if (auto* named = std::get_if<NamedSharding>(&sharding))
    while (named->spec.size() > rank && splits_nothing(named->mesh, named->spec.back()))
      named->spec.pop_back();
  return sharding;
}

StoreArray store_array(const ParamInfo& info, const SaveArgs& args, DType dtype, Shape shape) {
  StoreArray out;
  out.name = info.name;
  out.source_dtype = dtype;
  out.dtype = args.dtype.value_or(dtype);
  out.shape = std::move(shape);
  out.chunk_byte_size = args.chunk_byte_size;
  out.shard_axes = args.shard_axes;
  out.write_chunk_shape = args.write_chunk_shape;
  out.read_chunk_shape = args.read_chunk_shape;
  return out;
}

}  // namespace cairn::inline v0::handlers

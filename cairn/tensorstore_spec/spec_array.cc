// spec_array.cc -- opens, creates, reads and writes the array that a spec names.
#include <cairn/array/box.h>
#include <cairn/tensorstore_spec/members.h>
#include <cairn/tensorstore_spec/zarr_spec.h>
#include <cairn/zarr/write/write_array.h>

#include <mutex>
#include <utility>

namespace cairn::inline v0 {
namespace {

using tensorstore_spec::refuse;
using tensorstore_spec::ZarrSpec;

// Encodes values as the metadata says, so that the result equals TensorStore's output.
zarr::EncodeOptions encode_options(const ZarrSpec& spec) {
  zarr::EncodeOptions options;
  options.zstd_effort = zarr::EncodeOptions::Effort::kAsInMetadata;
  if (!spec.store_data_equal_to_fill_value)
    options.fill_chunks = zarr::EncodeOptions::FillChunks::kSkip;
  return options;
}

// Throws for conversions that TensorStore does not have.
void check_cast(DType from, DType to) {
  if (from == DType::kOpaque || to == DType::kOpaque)
    throw Error(Code::kInvalidArgument, "elements that Cairn does not interpret cannot be cast");
  if (dtype_kind(from) == DTypeKind::kComplex && to == DType::kBool)
    throw Error(Code::kUnimplemented,
                "elements of " + std::string(dtype_name(from)) + " cannot be cast to bool");
}

}  // namespace

struct SpecArray::State {
  tensorstore_spec::ArraySpec spec;
  std::optional<tensorstore_spec::KeyEditor> keys;
  std::shared_ptr<const zarr::ArrayMetadata> metadata;
  SpecArrayInfo info;
  std::vector<DType> types;  // element types, from the caller's to the stored one
  std::uint64_t memory = 0;
  std::optional<Workers> workers;
  mutable std::mutex writing;

  void open();
  void describe();
  [[nodiscard]] std::optional<std::string> stored_metadata() const;
  void create();
  void check_caller(const Box& box, DType dtype, std::size_t element_size,
                    const Shape& shape) const;
  [[nodiscard]] zarr::ZarrArray array() const { return {keys->reader(), "", metadata}; }
  void read_stored(const Box& box, const MutableArrayView& out) const;
};

std::optional<std::string> SpecArray::State::stored_metadata() const {
  const auto value = keys->reader()->read_at_most(spec.array.metadata_key, zarr::kMaxMetadataBytes);
  return value ? std::optional<std::string>(as_text(*value)) : std::nullopt;
}

void SpecArray::State::create() {
  const ZarrSpec& array = spec.array;
  auto made = std::make_shared<const zarr::ArrayMetadata>(tensorstore_spec::new_metadata(array));
  const std::string text = zarr::metadata_text(*made);
  keys->check_writable();
  if (array.mode.delete_existing) keys->clear();
  if (!keys->create(array.metadata_key, as_bytes(text)))
    refuse(array.pointer,
           "an array already exists at " + keys->reader()->describe(array.metadata_key) +
               "; set \"open\" to open it",
           Code::kAlreadyExists);
  metadata = std::move(made);
  info.metadata = text;
}

void SpecArray::State::open() {
  const ZarrSpec& array = spec.array;
  keys.emplace(array.location, tensorstore_spec::folder_prefix(array.location.path));
  if (array.mode.assume_metadata) {
    metadata = std::make_shared<const zarr::ArrayMetadata>(tensorstore_spec::new_metadata(array));
    info.metadata = zarr::metadata_text(*metadata);
    return;
  }
  if (!array.mode.open) return create();
  std::optional<std::string> text = stored_metadata();
  if (!text && array.mode.create) {
    try {
      return create();
    } catch (const Error& error) {  // another process may have created it meanwhile
      if (error.code() != Code::kAlreadyExists) throw;
      text = stored_metadata();
    }
  }
  const std::string key = keys->reader()->describe(array.metadata_key);
  if (!text) refuse(array.pointer, "there is no array at " + key, Code::kNotFound);
  metadata = with_context(
      [&] { return key; },
      [&] {
        return std::make_shared<const zarr::ArrayMetadata>(
            array.zarr_format == 3 ? zarr::parse_zarr_json(*text) : zarr::parse_zarray(*text));
      });
  tensorstore_spec::check_metadata(array, *text, *metadata);
  info.metadata = *std::move(text);
}

void SpecArray::State::describe() {
  info.driver = spec.casts.empty() ? (spec.array.zarr_format == 3 ? "zarr3" : "zarr") : "cast";
  for (const tensorstore_spec::CastSpec& cast : spec.casts) {
    cast.wanted.check(cast.dtype, metadata->shape, cast.pointer);
    types.push_back(cast.dtype);
  }
  types.push_back(metadata->dtype);
  info.dtype = types.front();
  info.stored_dtype = metadata->dtype;
  info.dtype_name = spec.casts.empty() ? metadata->dtype_name : std::string(dtype_name(info.dtype));
  info.element_size = spec.casts.empty() ? metadata->element_size : dtype_size(info.dtype);
  info.shape = metadata->shape;
  info.chunk_shape = metadata->chunk_shape;
  info.read_chunk_shape = metadata->read_chunk_shape();
}

void SpecArray::State::check_caller(const Box& box, DType dtype, std::size_t element_size,
                                    const Shape& shape) const {
  if (dtype != info.dtype || element_size != info.element_size)
    throw Error(Code::kInvalidArgument, "source element type " + std::string(dtype_name(dtype)) +
                                            " does not match array element type " +
                                            info.dtype_name);
  if (shape != box.shape || box.origin.size() != box.shape.size() ||
      box.rank() != info.shape.size())
    throw Error(Code::kInvalidArgument, "source shape " + shape_text(shape) +
                                            " does not match box shape " + shape_text(box.shape) +
                                            " of an array of shape " + shape_text(info.shape));
  check_inside(box, info.shape);
}

void SpecArray::State::read_stored(const Box& box, const MutableArrayView& out) const {
  ByteBudget budget(memory);
  const auto missing =
      spec.array.fill_missing_data_reads ? zarr::MissingChunk::kFill : zarr::MissingChunk::kError;
  array().read(box, out, missing, {.executor = &workers->executor(), .budget = &budget});
}

const SpecArrayInfo& SpecArray::info() const { return state_->info; }

void SpecArray::read(const Box& box, const MutableArrayView& out) const {
  const State& state = *state_;
  state.check_caller(box, out.dtype, out.element_size, out.shape);
  const std::vector<DType>& types = state.types;
  if (types.size() == 1) return state.read_stored(box, out);
  for (std::size_t i = 1; i < types.size(); ++i) check_cast(types[i], types[i - 1]);
  Array elements = Array::allocate(types.back(), box.shape);
  state.read_stored(box, elements.mutable_view());
  for (std::size_t i = types.size() - 2; i > 0; --i) {
    Array next = Array::allocate(types[i], box.shape);
    cast_elements(elements.view(), next.mutable_view());
    elements = std::move(next);
  }
  cast_elements(elements.view(), out);
}

Array SpecArray::read() const {
  const SpecArrayInfo& info = state_->info;
  Array out = Array::allocate(info.dtype, info.element_size, info.shape);
  read(Box::whole(info.shape), out.mutable_view());
  return out;
}

void SpecArray::write(const Box& box, const ArrayView& from) {
  State& state = *state_;
  state.check_caller(box, from.dtype, from.element_size, from.shape);
  const std::vector<DType>& types = state.types;
  for (std::size_t i = 1; i < types.size(); ++i) check_cast(types[i - 1], types[i]);
  Array elements;  // the result between two casts; the array writer does the last cast
  ArrayView source = from;
  for (std::size_t i = 1; i + 1 < types.size(); ++i) {
    Array next = Array::allocate(types[i], box.shape);
    cast_elements(source, next.mutable_view());
    elements = std::move(next);
    source = elements.view();
  }
  const std::lock_guard lock(state.writing);
  ByteBudget budget(state.memory);
  const zarr::ArrayWrite write{.array = state.array(),
                               .parts = {{.box = box, .from = source}},
                               .encode = encode_options(state.spec.array)};
  state.keys->change([&](ValueSink& sink) {
    zarr::write_boxes(std::span(&write, 1), sink,
                      {.executor = &state.workers->executor(), .budget = &budget});
  });
}

SpecArray open_array_spec(std::string_view json, const OpenSpecOptions& options) {
  auto state = std::make_shared<SpecArray::State>();
  state->memory = options.resources.memory;
  state->workers.emplace(options.resources.threads);
  state->spec = tensorstore_spec::parse_array_spec(tensorstore_spec::parse_spec(json), options,
                                                   options.context.value_or(SpecContext()));
  state->open();
  state->describe();
  return SpecArray(std::move(state));
}

}  // namespace cairn::inline v0

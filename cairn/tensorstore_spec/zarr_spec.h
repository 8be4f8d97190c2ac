// zarr_spec.h -- parses array specs: the drivers zarr, zarr3 and cast.
#pragma once

#include <cairn/base/json/json.h>
#include <cairn/tensorstore_spec/store_location.h>
#include <cairn/types.h>
#include <cairn/zarr/read/array.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::inline v0::tensorstore_spec {

// The type and extents that a spec states outside the metadata, in "dtype", "rank", "schema" and
// "transform".
struct Wanted {
  std::optional<DType> dtype;
  std::optional<std::int64_t> rank;
  std::optional<Shape> shape;
  // Throws failed_precondition, with `pointer`, for an array of another type or shape.
  void check(DType actual, const Shape& actual_shape, const std::string& pointer) const;
};

// The members of a spec that decide whether the array is opened, created or replaced.
struct OpenMode {
  bool open = true;
  bool create = false;
  bool delete_existing = false;
  bool assume_metadata = false;
};

// A parsed spec of the drivers zarr and zarr3.
struct ZarrSpec {
  std::string pointer;  // location of the spec: "", or "/base" below a cast
  int zarr_format = 2;
  StoreLocation location;
  std::string metadata_key;
  OpenMode mode;
  Json constraints;  // the member "metadata"; null if it is missing
  Wanted wanted;
  bool fill_missing_data_reads = true;
  bool store_data_equal_to_fill_value = false;
};

// A cast over an array, or over another cast.
struct CastSpec {
  std::string pointer;
  DType dtype = DType::kFloat32;
  Wanted wanted;
};

// A parsed spec of an array with its casts.
struct ArraySpec {
  ZarrSpec array;
  std::vector<CastSpec> casts;  // outermost first
};

// Parses a spec. Throws what open_array_spec throws. Accesses only the databases that the spec
// names.
ArraySpec parse_array_spec(const Json& spec, const OpenSpecOptions& options,
                           const SpecContext& context);

// Returns the metadata of a new array. Fills in what the spec leaves open as TensorStore does: an
// array of up to 2^20 elements is one chunk; v2 is compressed with blosc, v3 is not compressed.
// Throws invalid_argument or unimplemented.
zarr::ArrayMetadata new_metadata(const ZarrSpec& spec);
// Throws failed_precondition, naming the member, for an array whose metadata differs from the spec.
void check_metadata(const ZarrSpec& spec, std::string_view stored_text,
                    const zarr::ArrayMetadata& stored);

}  // namespace cairn::inline v0::tensorstore_spec

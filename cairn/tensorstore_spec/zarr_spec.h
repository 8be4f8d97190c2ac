// zarr_spec.h -- what a spec says of an array: the drivers zarr, zarr3 and cast.
#pragma once

#include <cairn/base/json.h>
#include <cairn/tensorstore_spec/store_location.h>
#include <cairn/types.h>
#include <cairn/zarr/read/array.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::tensorstore_spec {

// What a spec says of type and extents beside the metadata: "dtype", "rank", "schema", "transform".
struct Wanted {
  std::optional<DType> dtype;
  std::optional<std::int64_t> rank;
  std::optional<Shape> shape;
  // Throws failed_precondition, at `pointer`, for an array that is something else.
  void check(DType actual, const Shape& actual_shape, const std::string& pointer) const;
};

struct OpenMode {
  bool open = true;
  bool create = false;
  bool delete_existing = false;
  bool assume_metadata = false;
};

struct ZarrSpec {
  std::string pointer;  // where it is: "", or "/base" below a cast
  int zarr_format = 2;
  StoreLocation location;
  std::string metadata_key;
  OpenMode mode;
  Json constraints;  // the member "metadata"; null if there is none
  Wanted wanted;
  bool fill_missing_data_reads = true;
  bool store_data_equal_to_fill_value = false;
};

// A cast on top of an array, or of another cast.
struct CastSpec {
  std::string pointer;
  DType dtype = DType::kFloat32;
  Wanted wanted;
};

struct ArraySpec {
  ZarrSpec array;
  std::vector<CastSpec> casts;  // outermost first
};

// Throws as open_array_spec does. Databases that it names are looked at, nothing else.
ArraySpec parse_array_spec(const Json& spec, const OpenSpecOptions& options,
                           const SpecContext& context);

// The metadata of an array to be made, as TensorStore completes what a spec leaves open: chunks are
// the array, if it has no more than 2^20 elements; v2 is compressed with blosc, v3 not at all.
// Throws invalid_argument or unimplemented.
zarr::ArrayMetadata new_metadata(const ZarrSpec& spec);
// Throws failed_precondition, naming the member, for an array whose metadata is not what the spec
// says.
void check_metadata(const ZarrSpec& spec, std::string_view stored_text,
                    const zarr::ArrayMetadata& stored);

}  // namespace cairn::tensorstore_spec

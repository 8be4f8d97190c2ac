// reader.cc -- binds Checkpoint and TensorInfo.
#include "reader.h"

#include "calls.h"
#include "gil.h"
#include "lost_keys.h"
#include "option_values.h"
#include "options.h"
#include "specs.h"
#include "store_options.h"
#include "values/arrays.h"
#include "values/text.h"
#include "values/trees.h"

#include <cairn/convert.h>
#include <cairn/inspect.h>
#include <cairn/open.h>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace nb = nanobind;

namespace cairn::python {
namespace {

nb::tuple tuple_of(std::span<const std::int64_t> extents) {
  nb::list list;
  for (const std::int64_t extent : extents) list.append(extent);
  return nb::tuple(list);
}

std::string_view kind_name(LeafKind kind) {
  switch (kind) {
    case LeafKind::kArray:
      return "array";
    case LeafKind::kString:
      return "string";
    case LeafKind::kEmpty:
      return "empty";
    case LeafKind::kPlaceholder:
      return "placeholder";
    case LeafKind::kUnknown:
      return "unknown";
    case LeafKind::kCustom:
      break;
  }
  return "custom";
}

// The keys from the root: str for dicts and fields, int for sequences.
nb::tuple path_tuple(const TensorInfo& tensor) {
  nb::list keys;
  if (tensor.item) keys.append(to_str(*tensor.item));
  for (const Key& key : tensor.path) {
    const nb::object text = to_str(key.text);
    keys.append(key.type == KeyType::kSequence ? nb::object(nb::int_(text)) : text);
  }
  return nb::tuple(keys);
}

// Throws the error for which a leaf cannot be read.
void check_readable(const TensorInfo& tensor) {
  const std::string name = tensor.full_name();
  if (!tensor.error.empty())
    throw Error(tensor.error_code, name.empty() ? tensor.error : name + ": " + tensor.error);
}

// KeyError takes a name, not a sentence, but the names that are alike help more.
[[noreturn]] void throw_key_error(const Error& error) {
  PyErr_SetObject(PyExc_KeyError, to_str(error.message()).ptr());
  throw nb::python_error();
}

std::vector<std::string> texts_of(const std::vector<NameText>& names) {
  std::vector<std::string> texts;
  for (const NameText& name : names) texts.push_back(name.text);
  return texts;
}

HtmlReportOptions html_report_options(nb::dict options) {
  static const Setters<HtmlReportOptions> kSetters{
      {"include",
       [](HtmlReportOptions& o, const std::string& n, nb::handle v) {
         o.include = texts_of(cast_option<std::vector<NameText>>(n, v, "a list of str"));
       }},
      {"exclude",
       [](HtmlReportOptions& o, const std::string& n, nb::handle v) {
         o.exclude = texts_of(cast_option<std::vector<NameText>>(n, v, "a list of str"));
       }},
      {"values", [](HtmlReportOptions& o, const std::string& n,
                    nb::handle v) { o.values = bool_option(n, v); }},
      {"verify", [](HtmlReportOptions& o, const std::string& n,
                    nb::handle v) { o.verify = bool_option(n, v); }},
      {"steps", [](HtmlReportOptions& o, const std::string& n,
                   nb::handle v) { o.steps = number_option<std::size_t>(n, v); }},
      {"overwrite",
       [](HtmlReportOptions& o, const std::string& n, nb::handle v) {
         o.if_exists = bool_option(n, v) ? IfExists::kReplace : IfExists::kFail;
       }},
  };
  HtmlReportOptions chosen;
  set_options(options, {&kSetters}, chosen);
  return chosen;
}

class Reader {
 public:
  // `store`, `resources`: how it was opened.
  Reader(std::shared_ptr<const Checkpoint> checkpoint, StoreOptions store,
         const Resources& resources)
      : checkpoint_(std::move(checkpoint)), store_(std::move(store)), resources_(resources) {}

  [[nodiscard]] std::size_t size() const { return all().size(); }
  [[nodiscard]] const TensorInfo& tensor(std::size_t i) const {
    if (i >= all().size())
      throw Error(Code::kOutOfRange, "there is no tensor " + std::to_string(i));
    return all()[i];
  }
  [[nodiscard]] std::size_t index(const NameText& name) const {
    try {
      return checkpoint_->index(name.text);
    } catch (const Error& e) {
      if (e.code() == Code::kNotFound) throw_key_error(e);
      throw;
    }
  }
  [[nodiscard]] std::vector<std::size_t> select(const std::vector<NameText>& globs,
                                                const std::vector<NameText>& exclude) const {
    return select_tensors(*checkpoint_, texts_of(globs), texts_of(exclude));
  }
  // Nested containers with the number of the tensor in place of each leaf. `typed_keys`: keys of
  // dicts have the types that are recorded; else they are str.
  [[nodiscard]] nb::object structure(bool typed_keys) const {
    return to_python(checkpoint_->rich_structure(), {},
                     typed_keys ? checkpoint_->key_types() : std::vector<DictKeyTypes>());
  }
  // Dicts with keys that come back as str although they may have been of another type when they
  // were saved, as (name, type); the type is "" where it is not recorded. Of the tensors with these
  // numbers, or of all (None).
  [[nodiscard]] nb::list lost_keys(const std::optional<std::vector<std::size_t>>& indices) const {
    std::vector<LostKeys> found;
    {
      const WithoutGil unlocked;
      found = find_lost_keys(*checkpoint_, indices);
    }
    nb::list result;
    for (const LostKeys& lost : found)
      result.append(nb::make_tuple(to_str(lost.dict), to_str(lost.type)));
    return result;
  }

  // The keys of all leaves as str, and the numbers of those that are empty containers or None.
  [[nodiscard]] nb::tuple leaf_paths() const {
    nb::list paths;
    nb::list empty;
    const TensorList leaves = all();
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      const TensorInfo& leaf = leaves[i];
      nb::list keys;
      if (leaf.item) keys.append(to_str(*leaf.item));
      for (const Key& key : leaf.path) keys.append(to_str(key.text));
      paths.append(nb::tuple(keys));
      if (leaf.kind == LeafKind::kEmpty) empty.append(i);
    }
    return nb::make_tuple(paths, empty);
  }
  // (kind, typestr, dtype) of all leaves. Equal ones are one object, so that a caller can decide
  // for a few types, not for each leaf.
  [[nodiscard]] nb::list leaf_types() const {
    nb::list types;
    std::map<std::tuple<LeafKind, std::string_view, std::string_view>, nb::object> made;
    for (const TensorInfo& leaf : all()) {
      nb::object& type = made[{leaf.kind, leaf.typestr, leaf.dtype_name}];
      if (!type.is_valid())
        type = nb::make_tuple(std::string(kind_name(leaf.kind)), to_str(leaf.typestr),
                              to_str(leaf.dtype_name));
      types.append(type);
    }
    return types;
  }
  // The implementations of the arrays of random keys, by number.
  [[nodiscard]] nb::dict random_keys() const {
    nb::dict found;
    for (std::size_t i = 0; i < size(); ++i) {
      const std::string implementation = checkpoint_->random_key_impl(i);
      if (!implementation.empty()) found[nb::int_(i)] = to_str(implementation);
    }
    return found;
  }
  // The bytes of all chunks in the store.
  [[nodiscard]] std::uint64_t stored_nbytes() const {
    std::uint64_t total = 0;
    for (const TensorInfo& leaf : all()) total += leaf.stored_nbytes;
    return total;
  }

  // Reads boxes (number of the tensor, origin, shape) and whole arrays (only the number) to new
  // arrays, in one plan. `dtypes` has the type for each, a name or "" for the stored one; None: all
  // as stored. `checked`: elements that the type cannot hold are an error (Casting::kChecked).
  [[nodiscard]] nb::list read(nb::list boxes, nb::handle progress, nb::handle dtypes,
                              bool checked) const {
    std::vector<ArrayRequest> requests;
    for (std::size_t k = 0; k < nb::len(boxes); ++k) {
      const nb::handle request = boxes[k];
      const bool whole = PyLong_Check(request.ptr()) != 0;
      const auto i = nb::cast<std::size_t>(whole ? request : request[0]);
      Box box =
          whole ? Box::whole(tensor(i).shape)
                : Box{nb::cast<std::vector<std::int64_t>>(request[1]), nb::cast<Shape>(request[2])};
      check_readable(tensor(i));
      requests.push_back({i, std::move(box), {}});
      if (!dtypes.is_none())
        requests.back().dtype = dtype_from_name(nb::cast<std::string_view>(dtypes[k]));
      if (checked) requests.back().casting = Casting::kChecked;
    }
    std::vector<Array> arrays;
    run_long(progress, [&](const CallControl& call) {
      arrays = checkpoint_->read_arrays(requests, call.progress);
    });
    NumpyMaker maker;
    for (const Array& array : arrays) maker.announce(array);
    nb::list result;
    for (std::size_t k = 0; k < arrays.size(); ++k)
      result.append(maker.make(arrays[k], opaque_name(tensor(requests[k].tensor))));
    return result;
  }

  // Reads boxes (number of the tensor, origin, shape, destination) into the caller's memory.
  void read_into(nb::list destinations, nb::handle progress) const {
    std::vector<ReadRequest> requests;
    for (const nb::handle request : destinations) {
      const auto i = nb::cast<std::size_t>(request[0]);
      Box box{nb::cast<std::vector<std::int64_t>>(request[1]), nb::cast<Shape>(request[2])};
      check_readable(tensor(i));
      MutableArrayView out = destination(i, box.shape, request[3]);
      requests.push_back({i, std::move(box), std::move(out)});
    }
    run(requests, progress);
  }

  // Loads everything.
  [[nodiscard]] nb::object load(nb::handle progress) const {
    Tree tree;
    OpaqueName opaque;
    for (const TensorInfo& each : all()) (void)opaque_name(each);  // throws for unknown types
    run_long(progress, [&](const CallControl& call) {
      std::vector<Tree> leaves = checkpoint_->load_leaves(call.progress);
      opaque = opaque_names(leaves);
      tree = checkpoint_->rich_tree_of([&](std::size_t i) { return std::move(leaves[i]); });
    });
    return to_python(tree, opaque, checkpoint_->key_types());
  }

  [[nodiscard]] nb::object view(std::size_t i) const {
    const TensorInfo& wanted = tensor(i);
    std::optional<Array> mapped;
    {
      const WithoutGil unlocked;
      check_readable(wanted);
      mapped = checkpoint_->try_view(i);
    }
    if (!mapped) return nb::none();
    return to_numpy(*mapped, Access::kReadOnly, opaque_name(wanted));
  }

  [[nodiscard]] nb::object strings(std::size_t i) const {
    std::vector<std::string> values;
    {
      const WithoutGil unlocked;
      check_readable(tensor(i));
      values = checkpoint_->read_strings(i);
    }
    Tree::List list;
    for (std::string& value : values) list.emplace_back(std::move(value));
    return to_python(Tree(std::move(list)));
  }

  [[nodiscard]] std::string random_key_impl(std::size_t i) const {
    return checkpoint_->random_key_impl(i);
  }
  [[nodiscard]] nb::object zarr_metadata(std::size_t i) const {
    return facts_of(checkpoint_->zarr_metadata(i));
  }
  [[nodiscard]] std::string info_json() const { return cairn::info_json(*checkpoint_); }
  void check_complete() const { checkpoint_->check_complete(); }
  [[nodiscard]] nb::list warnings() const {
    nb::list texts;
    for (const std::string& warning : checkpoint_->info().warnings) texts.append(to_str(warning));
    return texts;
  }
  [[nodiscard]] std::string drawn() const { return render_tree(*checkpoint_); }
  [[nodiscard]] std::string preview(std::size_t i) const {
    check_readable(tensor(i));
    return preview_tensor(*checkpoint_, i, {Box::whole(tensor(i).shape), tensor(i).shape});
  }
  [[nodiscard]] std::string stats_json(const std::vector<std::size_t>& indices) const {
    std::vector<TensorStats> stats;
    run_long(nb::none(), [&](const CallControl&) {
      for (const std::size_t i : indices) stats.push_back(tensor_stats(*checkpoint_, i));
    });
    return cairn::stats_json(stats);
  }
  // The sums of tensors; modules have at most `depth` levels.
  [[nodiscard]] std::string usage_json(const std::vector<std::size_t>& indices,
                                       std::size_t depth) const {
    return cairn::usage_json(usage(*checkpoint_, indices, depth));
  }
  // Writes the page to `path`. `other`: null, or the checkpoint to compare.
  [[nodiscard]] std::string html_report(const PathText& path, const Reader* other,
                                        const PathText& opened_path, nb::dict options,
                                        nb::handle storage_options, nb::handle progress) const {
    HtmlReportOptions chosen = html_report_options(options);
    chosen.opened_path = opened_path.place();
    if (other != nullptr) chosen.other = other->checkpoint_;
    chosen.open = {.resources = resources_, .store = store_};
    chosen.resources = resources_;
    chosen.store = storage_options.is_none() ? store_ : store_options(storage_options);
    const std::string place = path.place();
    std::string json;
    run_long(
        progress,
        [&](const CallControl& call) {
          chosen.progress = call.progress;
          chosen.cancel = call.cancel;
          json = html_report_json(write_html_report(*checkpoint_, place, chosen), place);
        },
        Outcome::kCommit);
    return json;
  }
  [[nodiscard]] nb::object json_item(const NameText& name) const {
    std::optional<std::string> text;
    {
      const WithoutGil unlocked;
      text = read_json_item(*checkpoint_, name.text);
    }
    return text ? nb::cast(*text) : nb::none();
  }
  // The checkpoint with dequantised weights. `dtype`: a name, or "" for that of the model.
  [[nodiscard]] Reader dequantized(std::string_view dtype) const {
    constexpr std::uint64_t kShare = 4;  // of the memory that reads take
    DequantizeOptions options{.store = store_, .resources = resources_};
    options.resources.memory /= kShare;
    if (!dtype.empty())
      options.dtype =
          with_context([] { return std::string("dtype"); }, [&] { return parse_dtype(dtype); });
    std::unique_ptr<Checkpoint> made;
    run_long(nb::none(),
             [&](const CallControl&) { made = dequantize(checkpoint_, options).checkpoint; });
    return {std::move(made), store_, resources_};
  }
  [[nodiscard]] const Checkpoint& checkpoint() const { return *checkpoint_; }
  [[nodiscard]] std::shared_ptr<const Checkpoint> shared() const { return checkpoint_; }

 private:
  [[nodiscard]] TensorList all() const { return checkpoint_->tensors(); }

  [[nodiscard]] MutableArrayView destination(std::size_t i, const Shape& shape,
                                             nb::handle array) const {
    return with_context([&] { return tensor(i).full_name(); },
                        [&] {
                          MutableArrayView out = borrow_writable(array);
                          if (out.shape != shape)
                            throw Error(Code::kInvalidArgument,
                                        "the stored shape is " + shape_text(shape) +
                                            ", the destination's is " + shape_text(out.shape));
                          return out;
                        });
  }

  void run(const std::vector<ReadRequest>& requests, nb::handle progress) const {
    run_long(progress,
             [&](const CallControl& call) { checkpoint_->read(requests, call.progress); });
  }

  // The name of the type if NumPy has one; else throws an error that names the array.
  static std::string opaque_name(const TensorInfo& tensor) {
    if (tensor.dtype != DType::kOpaque || !tensor.is_array() || !tensor.error.empty()) return "";
    try {
      (void)opaque_dtype(tensor.dtype_name);
    } catch (Error& e) {
      if (!tensor.full_name().empty()) e.add_context(tensor.full_name());
      throw;
    }
    return tensor.dtype_name;
  }

  // Opaque elements are loaded without the name of their type. Calls no Python: it runs without the
  // lock of the interpreter.
  [[nodiscard]] OpaqueName opaque_names(const std::vector<Tree>& leaves) const {
    std::map<const std::byte*, std::string> names;
    for (std::size_t i = 0; i < leaves.size(); ++i)
      if (all()[i].dtype == DType::kOpaque && leaves[i].array() != nullptr)
        names.emplace(leaves[i].array()->bytes().data(), all()[i].dtype_name);
    if (names.empty()) return {};
    return [names = std::move(names)](const Array& array) {
      const auto found = names.find(array.bytes().data());
      return found == names.end() ? std::string() : found->second;
    };
  }

  std::shared_ptr<const Checkpoint> checkpoint_;
  StoreOptions store_;
  Resources resources_;
};

Reader open_reader(const PathText& path, std::optional<std::int64_t> step,
                   std::optional<std::string> item, bool allow_uncommitted, std::size_t threads,
                   std::optional<std::uint64_t> memory, std::string metadata_key,
                   std::optional<std::uint64_t> generation,
                   std::optional<std::uint64_t> commit_time_ns, std::string aggregate_filename,
                   bool allow_missing, nb::handle storage_options) {
  OpenOptions options{.step = step, .item = std::move(item)};
  options.allow_uncommitted = allow_uncommitted;
  options.allow_missing = allow_missing;
  options.resources.threads = threads;
  if (memory) options.resources.memory = working_memory(*memory);
  options.metadata_key = std::move(metadata_key);
  options.aggregate_filename = std::move(aggregate_filename);
  options.version = {.generation = generation, .commit_time_ns = commit_time_ns};
  options.store = store_options(storage_options);
  std::unique_ptr<Checkpoint> opened;
  run_long(nb::none(), [&](const CallControl& call) {
    options.cancel = call.cancel;
    opened = cairn::open(path.text, options);
  });
  return {std::move(opened), std::move(options.store), options.resources};
}

void define_tensor_info(nb::module_& module) {
  nb::class_<TensorInfo>(module, "TensorInfo", "Description of one leaf of a checkpoint.")
      .def_prop_ro("name", [](const TensorInfo& t) { return to_str(t.full_name()); })
      .def_prop_ro("path", path_tuple)
      .def_prop_ro("kind", [](const TensorInfo& t) { return std::string(kind_name(t.kind)); })
      .def_prop_ro("typestr", [](const TensorInfo& t) { return to_str(t.typestr); })
      .def_prop_ro("dtype", [](const TensorInfo& t) { return to_str(t.dtype_name); })
      .def_prop_ro("shape", [](const TensorInfo& t) { return tuple_of(t.shape); })
      .def_prop_ro("nbytes", [](const TensorInfo& t) { return t.nbytes; })
      .def_prop_ro("stored_nbytes", [](const TensorInfo& t) { return t.stored_nbytes; })
      .def_prop_ro("chunk_shape", [](const TensorInfo& t) { return tuple_of(t.chunk_shape); })
      .def_prop_ro("sharding", [](const TensorInfo& t) { return to_str(t.sharding); })
      .def_prop_ro("error", [](const TensorInfo& t) { return to_str(t.error); });
}

}  // namespace

std::shared_ptr<const Checkpoint> checkpoint_of(nb::handle reader) {
  Reader* found = nullptr;
  return nb::try_cast(reader, found) && found != nullptr ? found->shared() : nullptr;
}

void define_reader(nb::module_& module) {
  define_tensor_info(module);
  nb::class_<Reader>(module, "Reader", "An opened checkpoint.")
      .def("__len__", &Reader::size)
      .def("tensor", &Reader::tensor, nb::arg("index"), nb::rv_policy::reference_internal)
      .def("index", &Reader::index, nb::arg("name"))
      .def("select", &Reader::select, nb::arg("globs"), nb::arg("exclude") = nb::tuple())
      .def("structure", &Reader::structure, nb::arg("typed_keys") = false)
      .def("lost_keys", &Reader::lost_keys, nb::arg("indices").none() = nb::none())
      .def("warnings", &Reader::warnings)
      .def("check_complete", &Reader::check_complete)
      .def("leaf_paths", &Reader::leaf_paths)
      .def("leaf_types", &Reader::leaf_types)
      .def("random_keys", &Reader::random_keys)
      .def("stored_nbytes", &Reader::stored_nbytes)
      .def("read", &Reader::read, nb::arg("boxes"), nb::arg("progress").none() = nb::none(),
           nb::arg("dtypes").none() = nb::none(), nb::arg("checked") = false)
      .def("read_into", &Reader::read_into, nb::arg("destinations"),
           nb::arg("progress").none() = nb::none())
      .def("load", &Reader::load, nb::arg("progress").none() = nb::none())
      .def("view", &Reader::view, nb::arg("index"))
      .def("strings", &Reader::strings, nb::arg("index"))
      .def("random_key_impl", &Reader::random_key_impl, nb::arg("index"))
      .def("zarr_metadata", &Reader::zarr_metadata, nb::arg("index"))
      .def("info_json", &Reader::info_json, nb::call_guard<WithoutGil>())
      .def("drawn", &Reader::drawn, nb::call_guard<WithoutGil>())
      .def("preview", &Reader::preview, nb::arg("index"), nb::call_guard<WithoutGil>())
      .def("stats_json", &Reader::stats_json, nb::arg("indices"))
      .def("usage_json", &Reader::usage_json, nb::arg("indices"), nb::arg("depth"),
           nb::call_guard<WithoutGil>())
      .def("html_report", &Reader::html_report, nb::arg("path"), nb::arg("other").none(),
           nb::arg("opened_path"), nb::arg("options"), nb::arg("storage_options").none(),
           nb::arg("progress").none())
      .def("json_item", &Reader::json_item, nb::arg("name"))
      .def("dequantized", &Reader::dequantized, nb::arg("dtype"));
  module.def(
      "is_number_type",
      [](std::string_view name) {
        const auto dtype = dtype_from_name(name);
        return dtype && *dtype != DType::kOpaque;
      },
      nb::arg("name"));
  module.def("open", open_reader, nb::arg("path"), nb::arg("step") = nb::none(),
             nb::arg("item") = nb::none(), nb::arg("allow_uncommitted") = false,
             nb::arg("threads") = 0, nb::arg("memory") = nb::none(), nb::arg("metadata_key") = "",
             nb::arg("generation") = nb::none(), nb::arg("commit_time_ns") = nb::none(),
             nb::arg("aggregate_filename") = "checkpoint", nb::arg("allow_missing") = false,
             nb::arg("storage_options").none() = nb::none());
}

}  // namespace cairn::python

// pytree_errors_test.cc -- everything that Orbax refuses of pytrees and that can be asked of Cairn:
// the same trigger, our code, and a message that names what was given, where, what was expected,
// and the way out. docs/compatibility.md has the table of both.
#include <cairn/io/file.h>
#include <cairn/ocdbt/write/writer.h>
#include <cairn/orbax/checkpointer.h>
#include <gmock/gmock.h>

#include <complex>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/matchers.h"
#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

using testing::error_of;
using ::testing::HasSubstr;

Array filled(Shape shape) {
  Array array = Array::allocate(DType::kFloat32, std::move(shape));
  for (std::size_t i = 0; i < array.bytes().size(); ++i)
    array.mutable_view().data[i] = std::byte{1};
  return array;
}

Tree leaf(const char* key, Tree value) { return Tree(Tree::Dict{{key, std::move(value)}}); }
Tree number() { return Tree(std::int64_t{7}); }
template <class T>
Tree custom(T value) {
  return Tree(std::move(value));
}

Sharding over_two(const PartitionSpec& spec = {{"x"}}) {
  return NamedSharding{make_mesh({2}, {"x"}), spec};
}
Tree sharded(Shape shape = {8}) {
  return custom(ShardedArray::from_array(filled(std::move(shape)), over_two()));
}

// A folder, and what a row of a table does in it.
class Room {
 public:
  explicit Room(PyTreeCheckpointHandlerOptions options = {}) : handler(std::move(options)) {}

  void save(const Tree& tree, std::optional<Tree> args = {}) {
    handler.save(path, {.item = tree, .save_args = std::move(args)});
  }
  void restore(const PyTreeRestoreArgs& args = {}) {
    static_cast<void>(handler.restore(path, args));
  }
  void restore_with(AnyRestoreArgs args) {
    const auto tree = [](auto of) { return custom(std::move(of)); };
    restore({.restore_args = leaf("a", std::visit(tree, std::move(args)))});
  }
  [[nodiscard]] std::string file(const std::string& name) const { return path + "/" + name; }
  void replace(const std::string& name, const std::string& from, const std::string& to) const {
    std::string text(as_text(read_file(file(name))));
    ASSERT_NE(text.find(from), std::string::npos) << text;
    testing::put_file(file(name), text.replace(text.find(from), from.size(), to));
  }

  testing::TempDir dir;
  std::string path = dir / "item";
  PyTreeCheckpointHandler handler;
};

struct Row {
  const char* name;
  Code code;
  std::vector<std::string> says;
  std::function<void(Room&)> trigger;
};

void check(const std::vector<Row>& rows, const PyTreeCheckpointHandlerOptions& options = {}) {
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    Room room(options);
    const Error e = error_of([&] { row.trigger(room); });
    EXPECT_EQ(e.code(), row.code) << e.what();
    for (const std::string& text : row.says) EXPECT_THAT(e.what(), HasSubstr(text));
  }
}

constexpr Code kInvalid = Code::kInvalidArgument;

// ---- saving ----

// covers: errors.leaf, errors.same_name
TEST(PyTreeErrors, SavedTrees) {
  check({
      {"no leaves",
       kInvalid,
       {"empty item", "nothing to save"},
       [](Room& r) { r.save(Tree(Tree::Dict{})); }},
      {"arguments as an item",
       kInvalid,
       {"type handler lookup failed for", "no type handler is registered"},
       [](Room& r) { r.save(custom(PyTreeSaveArgs{number()})); }},
      {"a tree of metadata",
       kInvalid,
       {"a: ", "metadata()", "restore the tree first"},
       [](Room& r) {
         r.save(leaf("a", number()));
         r.save(r.handler.metadata(r.path).tree);
       }},
      {"a complex number",
       kInvalid,
       {"for 'a.0'", "type complex"},
       [](Room& r) { r.save(leaf("a", Tree(Tree::List{Tree(std::complex<double>(1, 2))}))); }},
      {"a described array",
       kInvalid,
       {"for 'a'", "ShapeDtypeStruct"},
       [](Room& r) {
         r.save(leaf("a", custom(ShapeDtypeStruct{{2}, DType::kInt8, {}})));
       }},
      {"bytes",
       kInvalid,
       {"a: bytes cannot be stored", "bytes"},
       [](Room& r) { r.save(leaf("a", Tree(Bytes(3)))); }},
      {"elements of no type",
       Code::kUnimplemented,
       {"a: ", "TensorStore and Orbax cannot read them", "cast"},
       [](Room& r) { r.save(leaf("a", Tree(Array::allocate(DType::kOpaque, 8, {1})))); }},
      {"a string whose name is no JSON pointer",
       kInvalid,
       {"'a~b'", "'~' must be followed by 0 or 1"},
       [](Room& r) { r.save(leaf("a~b", Tree(std::string("text")))); }},
      {"two leaves of one name",
       kInvalid,
       {"'a.b'", "overwrite the other"},
       [](Room& r) {
         r.save(Tree(Tree::Dict{{"a.b", number()}, {"a", leaf("b", number())}}));
       }},
      {"two arrays whose names differ by a slash at the end",
       kInvalid,
       {"'a' and 'a/'", "overwrite the other"},
       [](Room& r) {
         r.save(Tree(Tree::Dict{{"a", number()}, {"a/", number()}}));
       }},
  });
}

// covers: errors.save_args, errors.custom_metadata
TEST(PyTreeErrors, SaveArgs) {
  const auto save = [](const SaveArgs& args, Tree value = Tree(filled({8, 6}))) {
    return [args, value](Room& r) { r.save(leaf("a", value), leaf("a", custom(args))); };
  };
  check({
      {"a chunk smaller than an int",
       kInvalid,
       {"a: ", "chunk", "4 bytes", "8"},
       save({.chunk_byte_size = 4}, number())},
      {"a chunk smaller than a float",
       kInvalid,
       {"a: ", "chunk", "2 bytes", "4"},
       save({.chunk_byte_size = 2})},
      {"a negative axis", kInvalid, {"a: ", "axis -1"}, save({.shard_axes = {-1}})},
      {"an axis too many", kInvalid, {"a: ", "axis 2", "rank 2"}, save({.shard_axes = {2}})},
      {"arguments for no leaf",
       kInvalid,
       {"\n  b: ", "in the arguments", "nothing in the tree"},
       [](Room& r) {
         r.save(leaf("a", number()), Tree(Tree::Dict{{"a", Tree()}, {"b", custom(SaveArgs{})}}));
       }},
      {"chunks of shards without Zarr v3",
       kInvalid,
       {"a: ", "write_chunk_shape", "set use_zarr3"},
       save({.write_chunk_shape = Shape{4, 6}})},
      {"data files of a negative size",
       kInvalid,
       {"ocdbt_target_data_file_size is -1", "must not be negative"},
       [](Room& r) {
         r.handler.save(r.path, {.item = number(), .ocdbt_target_data_file_size = -1});
       }},
      {"custom metadata that is no JSON",
       kInvalid,
       {"the custom metadata"},
       [](Room& r) { r.handler.save(r.path, {.item = number(), .custom_metadata = "{"}); }},
  });
  PyTreeCheckpointHandlerOptions zarr3;
  zarr3.use_zarr3 = true;
  check(
      {
          {"a shard that does not divide",
           kInvalid,
           {"a: ", "write_chunk_shape (3, 6)", "(8, 6)"},
           save({.write_chunk_shape = Shape{3, 6}})},
          {"a shard of another rank",
           kInvalid,
           {"a: ", "write_chunk_shape (8,)", "(8, 6)"},
           save({.write_chunk_shape = Shape{8}})},
          {"no shard",
           kInvalid,
           {"a: ", "write_chunk_shape (0, 6)"},
           save({.write_chunk_shape = Shape{0, 6}})},
          {"a chunk that does not divide",
           kInvalid,
           {"a: ", "read_chunk_shape (3, 6)", "write_chunk_shape, (4, 6)"},
           save({.write_chunk_shape = Shape{4, 6}, .read_chunk_shape = Shape{3, 6}})},
          {"a chunk that does not divide a piece",
           kInvalid,
           {"a: ", "read_chunk_shape (3, 6)", "pieces", "(4,"},
           [](Room& r) {
             r.save(leaf("a", sharded({8, 6})),
                    leaf("a", custom(SaveArgs{.read_chunk_shape = Shape{3, 6}})));
           }},
          {"axes and shapes",
           kInvalid,
           {"a: ", "shard_axes", "cannot be combined"},
           save({.shard_axes = {0}, .read_chunk_shape = Shape{1, 6}})},
      },
      zarr3);
}

// covers: errors.handler_options
TEST(PyTreeErrors, HandlerOptions) {
  const auto make = [](const std::function<void(PyTreeCheckpointHandlerOptions&)>& set) {
    return [set](Room&) {
      PyTreeCheckpointHandlerOptions options;
      set(options);
      const PyTreeCheckpointHandler handler(options);
    };
  };
  const auto with_key = [](const std::function<void(PyTreeCheckpointHandlerOptions&)>& set,
                           const std::string& key = "meta") {
    return [set, key](Room& r) {
      auto registry = std::make_shared<TypeHandlerRegistry>(standard_type_handlers());
      registry->add(typeid(Array),
                    std::make_shared<NumpyHandler>(NumpyHandler::Options{.metadata_key = key}),
                    {nullptr, true});
      PyTreeCheckpointHandlerOptions options;
      options.type_handler_registry = registry;
      set(options);
      PyTreeCheckpointHandler(options).save(r.path, {.item = leaf("a", Tree(filled({2})))});
    };
  };
  check({
      {"no gigabytes", kInvalid, {"save_concurrent_gb is 0", "positive"}, make([](auto& o) {
         o.save_concurrent_gb = 0;
       })},
      {"fewer gigabytes", kInvalid, {"restore_concurrent_gb is -1"}, make([](auto& o) {
         o.restore_concurrent_gb = -1;
       })},
      {"no bytes", kInvalid, {"restore_concurrent_bytes is 0"}, make([](auto& o) {
         o.restore_concurrent_bytes = 0;
       })},
      {"both units",
       kInvalid,
       {"save_concurrent_gb and save_concurrent_bytes", "give only one"},
       make([](auto& o) {
         o.save_concurrent_gb = 1;
         o.save_concurrent_bytes = 1;
       })},
      {"a folder for the aggregate file", kInvalid, {"'a/b'", "aggregate file"}, make([](auto& o) {
         o.aggregate_filename = "a/b";
       })},
      {"no memory", kInvalid, {"'memory' is 0"}, make([](auto& o) { o.resources.memory = 0; })},
      {"auto without a maximum", kInvalid, {"max_transfer_concurrent_gb"}, make([](auto& o) {
         o.save_device_host_concurrent_gb = AutoLimit{};
       })},
      {"auto without room", kInvalid, {"0.8 of it"}, make([](auto& o) {
         o.save_device_host_concurrent_gb = AutoLimit{};
         o.memory_limit_options.max_transfer_concurrent_gb = 10;
       })},
      {"replicas of nobody",
       kInvalid,
       {"replica_id", "use_replica_parallel"},
       [](Room&) { const ArrayHandler handler({.replica_id = std::nullopt}); }},
      {"a metadata_key in Zarr v3",
       kInvalid,
       {"a: metadata_key 'meta'", "Zarr v2"},
       with_key([](auto& o) { o.use_zarr3 = true; })},
      {"a metadata_key that is a chunk's",
       kInvalid,
       {"a: metadata_key '0'", "a chunk's key"},
       with_key([](auto& o) { o.use_ocdbt = false; }, "0")},
      {"a metadata_key in a database",
       kInvalid,
       {"a: metadata_key 'meta'", "enable_post_merge_validation"},
       with_key([](auto&) {})},
  });
}

// ---- finding a checkpoint ----

// covers: errors.missing, errors.file, errors.exists, errors.unfinished
TEST(PyTreeErrors, Places) {
  const auto file_at = [](Room& r) {
    testing::put_file(r.dir / "file", "");
    return r.dir / "file";
  };
  check({
      {"no folder", Code::kNotFound, {"item", "no such folder"}, [](Room& r) { r.restore(); }},
      {"no checkpoint",
       Code::kNotFound,
       {"item", "no such checkpoint"},
       [](Room& r) { static_cast<void>(Checkpointer().restore(r.path)); }},
      {"metadata of no checkpoint",
       Code::kNotFound,
       {"item"},
       [](Room& r) { static_cast<void>(Checkpointer().metadata(r.path)); }},
      {"metadata of a file",
       kInvalid,
       {"is a file", "folder"},
       [&](Room& r) { static_cast<void>(Checkpointer().metadata(file_at(r))); }},
      {"restoring a file",
       kInvalid,
       {"is a file", "folder"},
       [&](Room& r) { static_cast<void>(Checkpointer().restore(file_at(r))); }},
      {"an unfinished checkpoint",
       Code::kFailedPrecondition,
       {"incomplete checkpoint", "interrupted"},
       [](Room& r) {
         std::filesystem::create_directory(r.dir / "a.orbax-checkpoint-tmp");
         static_cast<void>(Checkpointer().restore(r.dir / "a.orbax-checkpoint-tmp"));
       }},
      {"a checkpoint that is there",
       Code::kAlreadyExists,
       {"already exists", "allow replacing it"},
       [](Room& r) {
         Checkpointer checkpointer;
         checkpointer.save(r.path, {.item = number()});
         checkpointer.save(r.path, {.item = number()});
       }},
      {"metadata of a checkpoint that is no object",
       kInvalid,
       {"custom metadata"},
       [](Room& r) {
         Checkpointer().save(r.path, {.item = number()},
                             {.if_exists = IfExists::kFail, .custom_metadata = "[1]"});
       }},
      {"a name of unfinished ones",
       kInvalid,
       {".orbax-checkpoint-tmp", "unfinished"},
       [](Room& r) {
         Checkpointer().save(r.dir / "a.orbax-checkpoint-tmp-1", {.item = number()});
       }},
      {"no structure",
       Code::kNotFound,
       {"no structure could be identified", "_METADATA", "give a target"},
       [](Room& r) {
         std::filesystem::create_directory(r.path);
         r.restore();
       }},
      {"an empty tree",
       kInvalid,
       {"item", "tree is empty"},
       [](Room& r) {
         std::filesystem::create_directory(r.path);
         testing::put_file(r.file("_METADATA"), R"({"tree_metadata": {}, "use_zarr3": false})");
         r.restore();
       }},
      {"nothing to finalize",
       Code::kNotFound,
       {"item", "no such folder"},
       [](Room& r) { r.handler.finalize(r.path); }},
  });
}

// ---- restoring ----

// covers: errors.target
TEST(PyTreeErrors, Targets) {
  const Tree stored(Tree::Dict{{"a", number()}, {"l", Tree(Tree::List{number(), number()})}});
  const auto into = [&](Tree target, bool partial) {
    return [=](Room& r) {
      r.save(stored);
      r.restore({.item = target, .partial_restore = partial});
    };
  };
  const Tree one = leaf("a", number());
  check({
      {"less",
       kInvalid,
       {"they differ at 1 path", "\n  l: source: ", "target: nothing", "partial_restore"},
       into(one, false)},
      {"more",
       kInvalid,
       {"\n  x: source: nothing", "partial_restore"},
       into(Tree(Tree::Dict{
                {"a", number()}, {"l", Tree(Tree::List{number(), number()})}, {"x", number()}}),
            false)},
      {"a shorter list",
       kInvalid,
       {"\n  l: source: ", "2", "1"},
       into(leaf("l", Tree(Tree::List{number()})), true)},
      {"a leaf for a list", kInvalid, {"\n  l: source: "}, into(leaf("l", number()), true)},
      {"a dict for a leaf",
       kInvalid,
       {"\n  a: source: "},
       into(leaf("a", leaf("b", number())), true)},
      {"arguments for less",
       kInvalid,
       {"\n  l: ", "nothing in the arguments"},
       [&](Room& r) {
         r.save(stored);
         r.restore({.restore_args = leaf("a", custom(RestoreArgs{}))});
       }},
      {"no arguments for a leaf of part",
       kInvalid,
       {"restore_args", "'a'", "None for the defaults"},
       [&](Room& r) {
         r.save(stored);
         r.restore({.item = one,
                    .restore_args = Tree(Tree::Dict{{"x", Tree()}}),
                    .partial_restore = true});
       }},
  });
}

// covers: type_handlers.RestoreArgs
// note: `restore_type=int` of NaN, an infinity or a number of more than 64 bits is an error.
// Orbax returns a Python integer where it can.
// covers: errors.restore_args, errors.restore_type
TEST(PyTreeErrors, RestoreArgs) {
  const auto restore = [](Tree value, AnyRestoreArgs args) {
    return [=](Room& r) {
      r.save(leaf("a", value));
      r.restore_with(args);
    };
  };
  const auto array = [](const std::function<void(ArrayRestoreArgs&)>& set) {
    ArrayRestoreArgs args;
    args.sharding = over_two();
    set(args);
    return args;
  };
  const Tree host(filled({8}));
  check({
      {"two shapes",
       kInvalid,
       {"a: ", "global_shape (8,)", "shape (4,)", "must match"},
       restore(host, array([](auto& o) {
                 o.global_shape = Shape{8};
                 o.shape = Shape{4};
               }))},
      {"another shape",
       kInvalid,
       {"a: ", "(8,)", "(4,)", "strict"},
       restore(host, array([](auto& o) { o.shape = Shape{4}; }))},
      {"another rank",
       kInvalid,
       {"a: ", "ranks do not match", "(8,)", "(8, 1)"},
       restore(host, array([](auto& o) {
                 o.shape = Shape{8, 1};
                 o.strict = false;
               }))},
      {"a shape that devices cannot share",
       kInvalid,
       {"a: ", "3"},
       restore(host, array([](auto& o) {
                 o.shape = Shape{3};
                 o.strict = false;
               }))},
      {"no sharding",
       kInvalid,
       {"a: ", "sharding", "None", "mesh"},
       restore(host, ArrayRestoreArgs{})},
      {"a type of nobody",
       kInvalid,
       {"a: cannot be restored", "'quantized'"},
       restore(host, RestoreArgs{.restore_type = "quantized"})},
      {"no number as an integer",
       kInvalid,
       {"a: ", "nan", "64 bits"},
       restore(Tree(std::numeric_limits<double>::quiet_NaN()),
               RestoreArgs{.restore_type = RestoreType(typeid(std::int64_t))})},
      {"a large number as an integer",
       kInvalid,
       {"a: ", "64 bits"},
       restore(Tree(0x1p63), RestoreArgs{.restore_type = RestoreType(typeid(std::int64_t))})},
      {"an array as a scalar",
       kInvalid,
       {"a: ", "(8,)", "not a scalar"},
       restore(host, RestoreArgs{.restore_type = "scalar"})},
  });
}

// covers: errors.stored_sharding
TEST(PyTreeErrors, StoredShardings) {
  const auto changed = [](const std::string& from, const std::string& to) {
    return [=](Room& r) {
      r.save(leaf("a", sharded()));
      r.replace("_sharding", from, to);
      r.restore();
    };
  };
  check({
      {"none",
       kInvalid,
       {"a: ", "None", "none is stored", "mesh_axes"},
       [](Room& r) {
         r.save(leaf("a", sharded()));
         std::filesystem::remove(r.file("_sharding"));
         r.restore();
       }},
      {"not of this leaf",
       kInvalid,
       {"a: ", "sharding file", "mesh_axes"},
       changed("YQ==", "Yg==")},
      {"positional",
       kInvalid,
       {"a: ", "give a concrete sharding"},
       changed("NamedSharding", "PositionalSharding")},
      {"of an unknown type",
       Code::kUnimplemented,
       {"a: ", "FutureSharding"},
       changed("NamedSharding", "FutureSharding")},
  });
}

// covers: errors.missing_array, errors.missing_chunk
TEST(PyTreeErrors, MissingFiles) {
  PyTreeCheckpointHandlerOptions folders;
  folders.use_ocdbt = false;
  const auto without = [](const std::string& file) {
    return [=](Room& r) {
      r.save(leaf("a", Tree(filled({8}))));
      std::filesystem::remove_all(r.file(file));
      r.restore();
    };
  };
  check(
      {
          {"an array's folder",
           Code::kNotFound,
           {"a: ", "no array of this name", "cp -a"},
           without("a")},
          {"an array's metadata",
           Code::kNotFound,
           {"a: ", ".zarray", "cp -a"},
           without("a/.zarray")},
          {"a chunk", Code::kDataLoss, {"a: ", "0"}, without("a/0")},
          {"metadata of an array that is gone",
           Code::kNotFound,
           {"a: "},
           [](Room& r) {
             r.save(leaf("a", Tree(filled({8}))));
             std::filesystem::remove_all(r.file("a"));
             static_cast<void>(r.handler.metadata(r.path));
           }},
          {"a text",
           Code::kDataLoss,
           {"a: ", "_strings.json is missing"},
           [](Room& r) {
             r.save(leaf("a", Tree(std::string("text"))));
             std::filesystem::remove(r.file("_strings.json"));
             r.restore();
           }},
          {"a type that nobody knows",
           kInvalid,
           {"a: cannot be restored", "'quantized'"},
           [](Room& r) {
             r.save(leaf("a", Tree(filled({8}))));
             r.replace("_METADATA", "np.ndarray", "quantized");
             r.restore();
           }},
      },
      folders);
}

// covers: errors.transforms
TEST(PyTreeErrors, Transforms) {
  const auto restore = [](const Transform& transform, bool default_to_original = true) {
    return [=](Room& r) {
      r.save(leaf("a", number()));
      PyTreeRestoreArgs args{.item = leaf("x", number()),
                             .restore_args = leaf("x", custom(RestoreArgs{}))};
      args.transforms = {{"x", {.transform = transform}}};
      args.transforms_default_to_original = default_to_original;
      r.restore(args);
    };
  };
  const MultiValueFn first = [](std::string_view, const Tree& tree) { return tree; };
  check({
      {"without an item",
       kInvalid,
       {"transforms need an item"},
       [](Room& r) {
         r.save(leaf("a", number()));
         PyTreeRestoreArgs args;
         args.transforms.emplace();
         r.restore(args);
       }},
      {"without arguments",
       kInvalid,
       {"transforms need restore_args"},
       [](Room& r) {
         r.save(leaf("a", number()));
         PyTreeRestoreArgs args{.item = leaf("x", number())};
         args.transforms.emplace();
         r.restore(args);
       }},
      {"with a function",
       kInvalid,
       {"transforms and legacy_transform_fn exclude each other"},
       [](Room& r) {
         r.save(leaf("a", number()));
         PyTreeRestoreArgs args;
         args.transforms.emplace();
         args.legacy_transform_fn = [](const Tree&, const StoredStructure& stored) {
           return stored;
         };
         r.restore(args);
       }},
      {"of a key that is not stored",
       kInvalid,
       {"the checkpoint has no 'b'", "'x'"},
       restore({.original_key = "b"})},
      {"a fallback that is not stored",
       kInvalid,
       {"the checkpoint has no 'x'"},
       restore({.use_fallback = true}, false)},
      {"original_key and use_fallback",
       kInvalid,
       {"'x'", "original_key and use_fallback exclude each other"},
       restore({.original_key = "a", .use_fallback = true})},
      {"a function of many without inputs",
       kInvalid,
       {"'x'", "multi_value_fn needs multi_value_fn_input_args"},
       restore({.multi_value_fn = first})},
      {"inputs without a function of many",
       kInvalid,
       {"'x'", "multi_value_fn_input_args without multi_value_fn"},
       restore({.multi_value_fn_input_args = std::vector<std::string>{"a"}})},
      {"an expression that is none",
       kInvalid,
       {"regular expression", "'('"},
       [](Room& r) {
         r.save(leaf("a", number()));
         PyTreeRestoreArgs args{.item = leaf("x", number()),
                                .restore_args = leaf("x", custom(RestoreArgs{}))};
         args.transforms.emplace().emplace_back("(", RestoreTransform{});
         r.restore(args);
       }},
  });
}

// ---- what processes wrote ----

// covers: errors.merge
TEST(PyTreeErrors, Merging) {
  // The item as a process of its own leaves it: its database in a folder of its name.
  const auto apart = [](Room& r) {
    std::filesystem::create_directory(r.file("ocdbt.process_0"));
    for (const char* name : {"manifest.ocdbt", "d"})
      std::filesystem::rename(r.file(name), r.file(std::string("ocdbt.process_0/") + name));
  };
  const auto forget = [](Room& r, const char* key) {
    ocdbt::Writer writer(open_file_store(r.path), {});
    writer.stream().remove(key);
    writer.commit();
  };
  check({
      {"not merged yet",
       Code::kDataLoss,
       {"manifest"},
       [&](Room& r) {
         r.save(leaf("a", Tree(filled({8}))));
         apart(r);
         r.restore();
       }},
      {"an array that nobody wrote",
       Code::kDataLoss,
       {"params are missing", "'a'"},
       [&](Room& r) {
         r.save(leaf("a", Tree(filled({600}))));
         forget(r, "a/0");
         apart(r);
         r.handler.finalize(r.path);
       }},
      {"values of no array",
       Code::kDataLoss,
       {"no .zarray", "'a'"},
       [&](Room& r) {
         r.save(leaf("a", Tree(filled({600}))));
         forget(r, "a/.zarray");
         apart(r);
         r.handler.finalize(r.path);
       }},
      {"no process said anything",
       Code::kDataLoss,
       {"array_metadatas", "no file of any process"},
       [](Room& r) {
         r.save(leaf("a", sharded()));
         std::filesystem::remove(r.file("array_metadatas/process_0"));
         r.handler.finalize(r.path);
       }},
  });
}

}  // namespace
}  // namespace cairn

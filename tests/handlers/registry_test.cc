// registry_test.cc -- which handler a leaf has, and who may register what.
#include <cairn/orbax/handlers.h>
#include <cairn/orbax/item_storage.h>
#include <gmock/gmock.h>

#include <functional>

#include "tests/support/matchers.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Quantized {
  int scale = 0;
};

// A handler that only has a name.
class Named : public TypeHandler {
 public:
  explicit Named(std::string typestr) : typestr_(std::move(typestr)) {}
  [[nodiscard]] std::string typestr() const override { return typestr_; }
  [[nodiscard]] std::vector<ValueMetadata> metadata(std::span<const ParamInfo>) const override {
    return {};
  }
  Futures serialize(std::span<const Tree>, std::span<const ParamInfo>,
                    std::span<const SaveArgs>) const override {
    return {};
  }
  [[nodiscard]] std::vector<Tree> deserialize(std::span<const ParamInfo>,
                                              std::span<const AnyRestoreArgs>) const override {
    return {};
  }

 private:
  std::string typestr_;
};

TypeHandlerPtr named(const std::string& typestr) { return std::make_shared<Named>(typestr); }

// All of these are the caller's mistakes.
std::string error_of(const std::function<void()>& f) {
  const Error e = testing::error_of(f);
  EXPECT_EQ(e.code(), Code::kInvalidArgument) << e.what();
  return e.what();
}

TEST(Registry, TheStandardHandlersAreFoundByTypeAndByTypestr) {
  const TypeHandlerRegistry registry = standard_type_handlers();
  const struct {
    Tree leaf;
    const char* typestr;
  } kLeaves[] = {{Tree(true), "scalar"},
                 {Tree(std::int64_t{1}), "scalar"},
                 {Tree(std::uint64_t{1}), "scalar"},
                 {Tree(1.5), "scalar"},
                 {Tree(NumpyScalar{}), "scalar"},
                 {Tree(Bytes{}), "scalar"},
                 {Tree(Array::allocate(DType::kInt8, {2})), "np.ndarray"},
                 {Tree(ShardedArray{}), "jax.Array"},
                 {Tree(std::string("s")), "string"},
                 {Tree(Placeholder{}), "placeholder"}};
  for (const auto& [leaf, typestr] : kLeaves) {
    EXPECT_EQ(registry.get(leaf_type(leaf))->typestr(), typestr);
    EXPECT_TRUE(registry.has(typestr));
  }
}

TEST(Registry, RefusesUnhandledTypesByName) {
  const TypeHandlerRegistry registry = standard_type_handlers();
  EXPECT_THAT(error_of([&] {
                static_cast<void>(registry.get(leaf_type(Tree(std::complex<double>(1, 2)))));
              }),
              HasSubstr("no type handler is registered for the type complex"));
  EXPECT_THAT(
      error_of([&] { static_cast<void>(registry.get(leaf_type(Tree(ShapeDtypeStruct{})))); }),
      HasSubstr("ShapeDtypeStruct"));
  EXPECT_THAT(error_of([&] { static_cast<void>(registry.get("quantized")); }),
              HasSubstr("'quantized'"));
  EXPECT_FALSE(registry.has(typeid(Quantized)));
  EXPECT_THAT(error_of([&] { (void)registry.get(typeid(Quantized)); }),
              HasSubstr("registered for the type cairn::(anonymous namespace)::Quantized"));
  EXPECT_THAT(error_of([&] { leaf_type(Tree(Tree::Dict{})); }), HasSubstr("structure"));
}

TEST(Registry, ATypeHasOneHandlerUnlessItIsOverridden) {
  TypeHandlerRegistry registry = standard_type_handlers();
  registry.add(typeid(Quantized), named("quantized"));
  EXPECT_EQ(registry.get(typeid(Quantized))->typestr(), "quantized");
  EXPECT_THAT(error_of([&] { registry.add(typeid(Quantized), named("other")); }),
              HasSubstr("already registered"));
  EXPECT_THAT(error_of([&] { registry.add(typeid(bool), named("bool")); }),
              HasSubstr("already registered for the type bool"));
  registry.add(typeid(Quantized), named("other"), {nullptr, true});
  EXPECT_EQ(registry.get(typeid(Quantized))->typestr(), "other");
  // The old typestr still leads to the old handler: checkpoints that have it can be restored.
  EXPECT_EQ(registry.get("quantized")->typestr(), "quantized");
}

TEST(Registry, TypestrsCollide) {
  TypeHandlerRegistry registry = standard_type_handlers();
  EXPECT_THAT(error_of([&] { registry.add(typeid(Quantized), named("np.ndarray")); }),
              HasSubstr("typestr 'np.ndarray'"));
  const TypeHandlerPtr mine = named("np.ndarray");
  registry.add(typeid(Quantized), mine, {nullptr, true});
  EXPECT_EQ(registry.get("np.ndarray"), mine);   // the one registered last
  EXPECT_NE(registry.get(typeid(Array)), mine);  // the type keeps its own
}

TEST(Registry, TheFirstPredicateThatAcceptsCounts) {
  TypeHandlerRegistry registry;
  registry.add(typeid(Quantized), named("any"), {[](std::type_index) { return true; }, false});
  EXPECT_EQ(registry.get(typeid(int))->typestr(), "any");
  EXPECT_THAT(error_of([&] { registry.add(typeid(double), named("float")); }),
              HasSubstr("already registered"));
}

TEST(Registry, OverridingAnIntKeepsItsPlaceAndItsPredicate) {
  TypeHandlerRegistry registry = standard_type_handlers();
  registry.add(typeid(bool), named("mine"), {nullptr, true});
  EXPECT_EQ(registry.get(typeid(bool))->typestr(), "mine");
  // Overriding replaces the entry that accepted bool, which was that of all integers.
  EXPECT_FALSE(registry.has(typeid(std::int64_t)));
}

TEST(Registry, NoHandlerIsNoHandler) {
  TypeHandlerRegistry registry;
  EXPECT_THAT(error_of([&] { registry.add(typeid(int), nullptr); }), HasSubstr("no handler"));
}

// covers: type_handlers.register_standard_handlers_with_options
// note: C++ takes separate options for NumPy arrays, arrays on devices and scalars.
TEST(Registry, StandardHandlersCanBeGivenOptions) {
  StandardHandlerOptions options;
  options.numpy.metadata_key = "numpy.json";
  options.array.metadata_key = "array.json";
  options.scalar.metadata_key = "scalar.json";
  std::vector<std::string> replaced;
  options.observer = [&](const Event& event) {
    EXPECT_EQ(event.level, EventLevel::kWarning);
    EXPECT_EQ(event.name, "registry.handler_replaced");
    replaced.emplace_back(std::get<std::string_view>(event.attributes[1].value));
  };
  register_standard_handlers_with_options(options);
  const TypeHandlerRegistry registry =
      std::exchange(default_type_handler_registry(), standard_type_handlers());
  EXPECT_THAT(replaced,
              ElementsAre("scalar", "scalar", "scalar", "scalar", "np.ndarray", "jax.Array"));
  // Each handler stores its arrays' metadata under the name that the options give.
  class Keys : public ItemWriter {
   public:
    void add_array(StoreArray array) override { keys.push_back(array.metadata_key); }
    void add_string_in(std::string, std::string, std::string) override {}
    [[nodiscard]] bool is_background() const override { return false; }
    [[nodiscard]] std::shared_future<void> written() const override { return {}; }
    std::vector<std::string> keys;
  };
  const auto writer = std::make_shared<Keys>();
  const Array array = Array::allocate(DType::kInt8, {2});
  ParamInfo info;
  info.name = "leaf";
  info.writer = writer;
  info.is_ocdbt_checkpoint = true;
  for (const Tree& leaf :
       {Tree(true), Tree(std::int64_t{1}), Tree(2.5), Tree(NumpyScalar{}), Tree(array),
        Tree(ShardedArray::from_array(array, SingleDeviceSharding{"cpu:0"}))}) {
    const SaveArgs args;
    registry.get(leaf_type(leaf))->serialize({&leaf, 1}, {&info, 1}, {&args, 1});
  }
  EXPECT_THAT(writer->keys, ElementsAre("scalar.json", "scalar.json", "scalar.json", "scalar.json",
                                        "numpy.json", "array.json"));
}

TEST(Registry, DefaultRestoreTypesGoByTheArguments) {
  EXPECT_EQ(default_restore_type(RestoreArgs{}), "np.ndarray");
  EXPECT_EQ(default_restore_type(ArrayRestoreArgs{}), "jax.Array");
}

TEST(Registry, ArgumentsBelongTogether) {
  check_input_arguments({2, 2, 2});
  check_input_arguments({0});
  EXPECT_THAT(error_of([] { check_input_arguments({0, 0}); }), HasSubstr("no leaves"));
  EXPECT_THAT(error_of([] {
                check_input_arguments({2, 3});
              }),
              HasSubstr("2 entries in one list and 3 in another"));
}

TEST(Registry, LeavesOfACallAreOfOneCheckpoint) {
  class Writer : public ItemWriter {
    void add_array(StoreArray) override {}
    void add_string_in(std::string, std::string, std::string) override {}
    [[nodiscard]] bool is_background() const override { return false; }
    [[nodiscard]] std::shared_future<void> written() const override { return {}; }
  };
  std::vector<ParamInfo> infos(2);
  for (ParamInfo& info : infos) {
    info.name = "leaf";
    info.writer = infos[0].writer ? infos[0].writer : std::make_shared<Writer>();
    info.is_ocdbt_checkpoint = true;
  }
  const auto serialize = [&] {
    static_cast<void>(StringHandler().serialize(std::vector<Tree>(2, Tree(std::string())), infos,
                                                std::vector<SaveArgs>(2)));
  };
  serialize();
  infos[1].is_ocdbt_checkpoint = false;
  EXPECT_THAT(error_of(serialize),
              HasSubstr("leaf: whether the checkpoint uses OCDBT must be known, and all leaves"));
  infos[1].is_ocdbt_checkpoint.reset();
  EXPECT_THAT(error_of(serialize), HasSubstr("leaf: whether the checkpoint uses OCDBT"));
}

TEST(Registry, AStringFileIsNoOtherFile) {
  StringHandler({.filename = "texts.json"});
  for (const char* name : {"a/b", "..", "_METADATA", "_sharding", "manifest.ocdbt"})
    EXPECT_THAT(error_of([&] { StringHandler({.filename = name}); }),
                HasSubstr("'" + std::string(name) + "' cannot be the name"));
}

TEST(Registry, AHandlerThatIsReplacedIsReported) {
  TypeHandlerRegistry registry = standard_type_handlers();
  std::vector<std::string> events;
  const Observer observer = [&](const Event& event) { events.push_back(event_text(event)); };
  registry.add(typeid(Quantized), named("quantized"), {nullptr, true, observer});
  EXPECT_THAT(events, ElementsAre());
  registry.add(typeid(Quantized), named("other"), {nullptr, true, observer});
  registry.add(typeid(float), named("other"), {nullptr, true, observer});
  ASSERT_EQ(events.size(), 2U);
  EXPECT_THAT(events[0], HasSubstr("warning registry.handler_replaced type="));
  EXPECT_THAT(events[1], HasSubstr("warning registry.typestr_replaced type="));
  EXPECT_THAT(events[1], HasSubstr("typestr=\"other\""));
}

TEST(Registry, ALeafWithoutANameOrAFolderHasNoPath) {
  ParamInfo info;
  info.name = "leaf";
  EXPECT_THAT(error_of([&] { static_cast<void>(info.path()); }), HasSubstr("'leaf'"));
  info.parent_dir = "/item";
  EXPECT_EQ(info.path(), "/item/leaf");
  info.name.clear();
  EXPECT_THAT(error_of([&] { static_cast<void>(info.path()); }), HasSubstr("/item"));
}

TEST(Registry, ReplicasOfNobodyCannotShareOutPieces) {
  EXPECT_THAT(error_of([] { ArrayHandler({.replica_id = std::nullopt}); }),
              HasSubstr("use_replica_parallel"));
  ArrayHandler({.replica_id = std::nullopt, .use_replica_parallel = false});
}

}  // namespace
}  // namespace cairn

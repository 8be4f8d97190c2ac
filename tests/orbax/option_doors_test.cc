// option_doors_test.cc -- an option of storage has the same effect at every door of C++: save,
// Checkpointer, AsyncCheckpointer, CheckpointManager, convert and reshard.
// docs/reference/storage-options.md has the table of the same options in Python and the command.
#include <cairn/cairn.h>
#include <cairn/checkpoint_manager.h>
#include <cairn/io/directory.h>
#include <cairn/io/file.h>
#include <cairn/orbax/checkpointer.h>
#include <cairn/storage/kvstore.h>
#include <cairn/storage/ocdbt.h>
#include <gmock/gmock.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

using ::testing::IsEmpty;
using testing::TempDir;

struct OptionCase {
  std::string_view name;
  std::function<void(SaveOptions&)> of_save;
  std::function<void(PyTreeCheckpointHandlerOptions&, PyTreeSaveArgs&, CheckpointerSaveOptions&)>
      of_checkpointer;
  // Null: convert and reshard lack the option, because they keep what the source has.
  std::function<void(ConvertOptions&)> of_convert = {};
  bool is_item = false;  // a manager names its items itself
};

const std::vector<OptionCase>& option_cases() {
  static const std::vector<OptionCase> all = {
      {"defaults", [](SaveOptions&) {}, [](auto&, auto&, auto&) {}, [](ConvertOptions&) {}},
      {"use_zarr3", [](SaveOptions& o) { o.use_zarr3 = true; },
       [](auto& handler, auto&, auto&) { handler.use_zarr3 = true; },
       [](ConvertOptions& o) { o.format = TargetFormat::kOrbaxZarr3; }},
      {"use_ocdbt", [](SaveOptions& o) { o.use_ocdbt = false; },
       [](auto& handler, auto&, auto&) { handler.use_ocdbt = false; },
       [](ConvertOptions& o) { o.format = TargetFormat::kOrbaxFiles; }},
      {"compression", [](SaveOptions& o) { o.compression = Compression::zstd(7); },
       [](auto& handler, auto&, auto&) { handler.compression = Compression::zstd(7); },
       [](ConvertOptions& o) { o.orbax.compression = Compression::zstd(7); }},
      {"no compression", [](SaveOptions& o) { o.compression = Compression(Compression::kNone); },
       [](auto& handler, auto&, auto&) { handler.use_compression = false; },
       [](ConvertOptions& o) { o.orbax.compression = Compression(Compression::kNone); }},
      {"chunk_bytes", [](SaveOptions& o) { o.chunk_bytes = 4096; },
       [](auto& handler, auto&, auto&) { handler.chunk_bytes = 4096; },
       [](ConvertOptions& o) { o.orbax.chunk_bytes = 4096; }},
      {"target_file_bytes", [](SaveOptions& o) { o.target_file_bytes = 8192; },
       [](auto&, auto& args, auto&) { args.ocdbt_target_data_file_size = 8192; },
       [](ConvertOptions& o) { o.orbax.target_file_bytes = 8192; }},
      {"commit_protocol", [](SaveOptions& o) { o.commit_protocol = CommitProtocol::kCommitMarker; },
       [](auto& handler, auto&, auto&) { handler.commit_protocol = CommitProtocol::kCommitMarker; },
       [](ConvertOptions& o) { o.orbax.commit_protocol = CommitProtocol::kCommitMarker; }},
      {"durability", [](SaveOptions& o) { o.durability = Durability::kUnsynced; },
       [](auto& handler, auto&, auto&) { handler.durability = Durability::kUnsynced; },
       [](ConvertOptions& o) { o.orbax.durability = Durability::kUnsynced; }},
      {"item", [](SaveOptions& o) { o.item = "state"; },
       [](auto&, auto&, auto& options) { options.item = "state"; },
       [](ConvertOptions& o) { o.orbax.item = "state"; }, true},
      {"custom_metadata", [](SaveOptions& o) { o.custom_metadata = R"({"a": [1, null]})"; },
       [](auto&, auto&, auto& options) { options.custom_metadata = R"({"a": [1, null]})"; }},
      {"item_metadata", [](SaveOptions& o) { o.item_metadata = R"({"b": 2.5})"; },
       [](auto&, auto& args, auto&) { args.custom_metadata = R"({"b": 2.5})"; }},
      {"support_rich_types", [](SaveOptions& o) { o.support_rich_types = true; },
       [](auto& handler, auto&, auto&) {
         handler.pytree_metadata_options.support_rich_types = true;
       }},
  };
  return all;
}

Array noise(Shape shape) {
  Array array = Array::allocate(DType::kFloat32, std::move(shape));
  std::uint64_t state = 1;
  for (float& element : array.mutable_as<float>()) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    element = static_cast<float>(state >> 56U);  // compresses
  }
  return array;
}

Tree small_tree() {
  return Tree(Tree::Dict{{"large", Tree(noise({64, 128}))},
                         {"n", Tree(std::int64_t{7})},
                         {"pair", Tree(Tree::Tuple{{Tree(noise({3})), Tree(2.5)}})},
                         {"text", Tree(std::string("t"))}});
}

// What a checkpoint stores, without times and without the names of the databases' files: files and
// values by their names, and how many data files there are.
std::map<std::string, std::string> content_of(const std::string& path) {
  std::map<std::string, std::string> out;
  const auto add = [&](const std::string& file, EntryKind kind) {
    const std::string name = file.substr(path.size() + 1);
    const std::string folder = file.substr(0, file.rfind('/'));
    if (kind == EntryKind::kDirectory) {
      if (name.ends_with("/d") || name == "d")
        out[name] = std::to_string(names_in(file).size()) + " files";
    } else if (name.ends_with("manifest.ocdbt")) {
      const auto store = open_ocdbt(open_file_store(folder));
      for (const ListEntry& value : store->list(""))
        out[name + ": " + value.key] = as_text(*store->read_at_most(value.key, 1 << 20));
    } else if (name == "_CHECKPOINT_METADATA") {
      out[name] = open(path)->info().custom_metadata;
    } else if (name.ends_with("commit_success.txt")) {
      out[name] = "";  // it has the path
    } else if (!folder.ends_with("/d")) {
      out[name] = as_text(read_file(file));
    }
  };
  for_each_below(path, add);
  return out;
}

// The names of what differs.
std::vector<std::string> difference(const std::string& a, const std::string& b) {
  std::vector<std::string> out;
  auto rest = content_of(b);
  for (const auto& [name, content] : content_of(a)) {
    const auto other = rest.find(name);
    if (other == rest.end() || other->second != content) out.push_back(name);
    if (other != rest.end()) rest.erase(other);
  }
  for (const auto& [name, content] : rest) out.push_back(name);
  return out;
}

// Each thread writes a data file of its own.
const Resources kResources{.threads = 1};

// Saves the tree through every door into a folder of the door's name.
class Doors {
 public:
  Doors(const OptionCase& option, const std::string& folder) : option_(option), folder_(folder) {
    handler_.resources = kResources;
    option.of_checkpointer(handler_, args_, options_);
  }

  std::string save(std::optional<std::string> item = {}) const {
    SaveOptions options;
    options.resources = kResources;
    options.item = item;
    option_.of_save(options);
    return done(item ? "save_item" : "save",
                [&](const std::string& path) { cairn::save(path, small_tree(), options); });
  }
  std::string checkpointer() const {
    return done("checkpointer", [&](const std::string& path) {
      Checkpointer(handler_).save(path, args_, options_);
    });
  }
  std::string background() const {
    return done("background", [&](const std::string& path) {
      AsyncCheckpointer checkpointer(handler_);
      checkpointer.save(path, args_, options_);
      checkpointer.wait_until_finished();
    });
  }
  std::string manager() const {
    return done("manager",
                [&](const std::string& path) {
                  CheckpointManagerOptions options;
                  options.handler = handler_;
                  CheckpointManager manager(path, options);
                  manager.save(1, args_, {.custom_metadata = options_.custom_metadata});
                  manager.close();
                }) +
           "/1";
  }
  std::string converted() const {
    ConvertOptions options;
    options.resources = kResources;
    options.format = TargetFormat::kOrbax;
    option_.of_convert(options);
    return done("converted", [&](const std::string& path) { convert(*plain(), path, options); });
  }
  std::string resharded() const {
    ConvertOptions options;
    options.resources = kResources;
    options.format = TargetFormat::kOrbax;
    option_.of_convert(options);
    return done("resharded", [&](const std::string& path) {
      reshard(*plain(), path,
              {.mesh = make_mesh({1}, {"x"}),
               .format = options.format,
               .orbax = options.orbax,
               .resources = kResources});
    });
  }

 private:
  std::string done(const std::string& door,
                   const std::function<void(const std::string&)>& work) const {
    const std::string path = folder_ + "/" + door;
    work(path);
    return path;
  }
  std::unique_ptr<Checkpoint> plain() const {
    cairn::save(folder_ + "/plain", small_tree(), {.if_exists = IfExists::kReplace});
    return open(folder_ + "/plain");
  }

  const OptionCase& option_;
  std::string folder_;
  PyTreeCheckpointHandlerOptions handler_ = {};
  PyTreeSaveArgs args_{.item = small_tree()};
  CheckpointerSaveOptions options_ = {};
};

class OptionDoors : public ::testing::TestWithParam<std::size_t> {};

TEST_P(OptionDoors, HaveTheSameEffect) {
  const TempDir dir = TempDir::in_memory();
  const OptionCase& option = option_cases()[GetParam()];
  const Doors doors(option, dir.path());
  const std::string saved = doors.save();
  EXPECT_THAT(difference(doors.checkpointer(), saved), IsEmpty());
  EXPECT_THAT(difference(doors.background(), saved), IsEmpty());
  if (!option.is_item) {
    EXPECT_THAT(difference(doors.manager(), doors.save("default")), IsEmpty());
  }
  if (option.of_convert) {
    EXPECT_THAT(difference(doors.converted(), saved), IsEmpty());
    EXPECT_THAT(difference(doors.resharded(), saved), IsEmpty());
  }
}

// The test above could not fail for an option that changes nothing. Durability and the protocol of
// the commit leave no trace in what is stored.
TEST_P(OptionDoors, ChangeWhatIsStored) {
  const TempDir dir = TempDir::in_memory();
  const OptionCase& option = option_cases()[GetParam()];
  const bool changes =
      option.name != "defaults" && option.name != "durability" && option.name != "commit_protocol";
  cairn::save(dir / "plain", small_tree());
  EXPECT_EQ(difference(Doors(option, dir.path()).save(), dir / "plain").empty(), !changes);
}

INSTANTIATE_TEST_SUITE_P(, OptionDoors, ::testing::Range(std::size_t{0}, option_cases().size()),
                         [](const auto& option) {
                           std::string name(option_cases()[option.param].name);
                           for (char& letter : name)
                             if (letter == ' ') letter = '_';
                           return name;
                         });

}  // namespace
}  // namespace cairn

// trainer_folder_test.cc -- which files of a training run's folder are items, and where it opens.
#include <cairn/convert.h>
#include <cairn/formats/trainer_folder.h>
#include <cairn/io/file.h>
#include <cairn/open.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/support/upload.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;

using ::testing::ElementsAre;
using testing::FailsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using namespace std::string_literals;
using testing::put_file;
using testing::TempDir;

const std::string kTorch = std::string(CAIRN_GOLDEN_DIR) + "/pytorch/torch-2.13.0/";

// The file of torch.save with a dict `optimizer`, or that with tensors.
void put_torch(const std::string& path, const std::string& name = "objects.pt") {
  fs::create_directories(fs::path(path).parent_path());
  fs::copy_file(kTorch + name, path);
}

void put_safetensors(const std::string& path) {
  save(path, Tree{{"w", Array::from<float>({1, 2}, {2})}});
}

std::vector<std::string> items_in(const std::string& folder) {
  return trainer_items(FileTree(), folder);
}

TEST(TrainerFolder, OpensAtItsModel) {
  const TempDir dir;
  const std::string folder = dir / "checkpoint-500";
  fs::create_directory(folder);
  put_safetensors(folder + "/model.safetensors");
  EXPECT_THAT(open(folder)->info().items, IsEmpty());
  put_torch(folder + "/optimizer.pt");
  put_torch(folder + "/rng_state.pth", "tensors.pt");
  put_file(folder + "/trainer_state.json", "{}");
  fs::create_directory(folder + "/runs");
  for (const std::string& place : {folder, "memory://trainer_folder/checkpoint-500"s}) {
    SCOPED_TRACE(place);
    if (place != folder) testing::upload(folder, place);
    const auto model = open(place);
    EXPECT_EQ(model->info().format, "safetensors");
    EXPECT_THAT(model->info().items,
                ElementsAre("model.safetensors", "optimizer.pt", "rng_state.pth"));
    ASSERT_EQ(model->verify({}).findings.size(), 1U);
    EXPECT_THAT(model->verify({}).findings[0].message,
                HasSubstr("only if --item names them: optimizer.pt, rng_state.pth"));
    const auto optimizer = open(place, {.item = "optimizer.pt"});
    EXPECT_EQ(optimizer->info().format, "pytorch");
    EXPECT_THAT(optimizer->info().items, IsEmpty());
    EXPECT_EQ(optimizer->load().at("epoch"), Tree(3));
    EXPECT_EQ(open(place, {.item = "model.safetensors"})->load(), model->load());
    EXPECT_THAT([&] { open(place, {.item = "optimizer"}); },
                FailsWith(Code::kNotFound,
                          "there is no item \"optimizer\"; its items are "
                          "model.safetensors, optimizer.pt, rng_state.pth"));
    for (const std::string& name : {"../a.pt"s, ""s, "trainer_state.json"s, "runs"s})
      EXPECT_THAT([&] { open(place, {.item = name}); }, FailsWith(Code::kNotFound, "no item"));
    EXPECT_THAT([&] { open(place, {.step = 1, .item = "optimizer.pt"}); },
                FailsWith(Code::kInvalidArgument, "a step was requested"));
  }
}

TEST(TrainerFolder, ConvertNamesTheItemsThatItLeavesOut) {
  const TempDir dir;
  put_safetensors(dir / "model.safetensors");
  put_torch(dir / "optimizer.pt");
  const auto report = convert(*open(dir.path()), dir / "out.npz", {});
  EXPECT_THAT(report.left_out,
              ElementsAre(std::pair("optimizer.pt"s,
                                    "is not a part of the model; choose it with --item"s)));
  EXPECT_THAT(convert(*open(dir.path()), dir / "w.npz", {.include = {"w"}}).left_out, IsEmpty());
  const auto item = open(dir.path(), {.item = "optimizer.pt"});
  EXPECT_THAT(convert(*item, dir / "o.npz", {.include = {"model.**"}}).left_out,
              ::testing::Not(::testing::Contains(::testing::Key("model.safetensors"s))));
}

// The files of a set belong to its index.
TEST(TrainerFolder, AFileOfASetIsNoItem) {
  const TempDir dir;
  put_torch(dir / "pytorch_model-00001-of-00001.bin", "tensors.pt");
  put_file(dir / "pytorch_model.bin.index.json", R"({"weight_map": {}})");
  put_torch(dir / "optimizer.bin");
  put_torch(dir / "pytorch_model_1.bin");
  put_torch(dir / "random_states_0.pkl");
  put_file(dir / ".hidden.pt", "x");
  EXPECT_THAT(items_in(dir.path()), ElementsAre("optimizer.bin", "pytorch_model.bin.index.json",
                                                "pytorch_model_1.bin", "random_states_0.pkl"));
  EXPECT_EQ(open(dir.path())->info().format, "pytorch");
}

TEST(TrainerFolder, LightningHasOneFileOrALastOne) {
  const TempDir dir;
  put_torch(dir / "epoch=1.ckpt");
  const auto only = open(dir.path());
  EXPECT_THAT(only->info().items, IsEmpty());
  EXPECT_EQ(only->load().at("epoch"), Tree(3));
  put_torch(dir / "epoch=2.ckpt", "tensors.pt");
  put_file(dir / "other.ckpt", "not of PyTorch");
  EXPECT_THAT([&] { open(dir.path()); },
              FailsWith(Code::kInvalidArgument,
                        "has 2 checkpoints, and none is last.ckpt: epoch=1.ckpt, epoch=2.ckpt; "
                        "choose one with --item"));
  EXPECT_EQ(open(dir.path(), {.item = "epoch=1.ckpt"})->load().at("epoch"), Tree(3));
  put_torch(dir / "last.ckpt");
  EXPECT_EQ(open(dir.path())->load().at("epoch"), Tree(3));
  EXPECT_THAT(open(dir.path())->info().items,
              ElementsAre("epoch=1.ckpt", "epoch=2.ckpt", "last.ckpt", "other.ckpt"));
}

TEST(TrainerFolder, OfFsdpOpensAtTheModelOfAllRanks) {
  const TempDir dir;
  for (const char* name : {"pytorch_model_fsdp_0", "optimizer_0"})
    fs::copy(kTorch + "distributed", dir / name, fs::copy_options::recursive);
  put_torch(dir / "scheduler.pt");
  const auto model = open(dir.path());
  EXPECT_EQ(model->info().path, dir / "pytorch_model_fsdp_0");
  EXPECT_THAT(model->info().items,
              ElementsAre("optimizer_0", "pytorch_model_fsdp_0", "scheduler.pt"));
  EXPECT_EQ(open(dir.path(), {.item = "optimizer_0"})->info().path, dir / "optimizer_0");
  fs::remove_all(dir / "pytorch_model_fsdp_0");
  put_torch(dir / "pytorch_model_fsdp.bin");
  EXPECT_EQ(open(dir.path())->load().at("epoch"), Tree(3));
}

// A model of Hugging Face comes before others.
TEST(TrainerFolder, ANameOfHuggingFaceComesFirst) {
  const TempDir dir;
  put_torch(dir / "last.ckpt");
  put_torch(dir / "pytorch_model.bin", "tensors.pt");
  EXPECT_EQ(open(dir.path())->info().path, dir / "pytorch_model.bin");
  put_safetensors(dir / "model.safetensors");
  EXPECT_EQ(open(dir.path())->info().format, "safetensors");
}

TEST(TrainerFolder, AFolderWithoutAModelIsNone) {
  const TempDir dir;
  put_torch(dir / "optimizer.pt");
  EXPECT_THAT([&] { open(dir.path()); },
              FailsWith(Code::kInvalidArgument, "is a PyTorch checkpoint, but the folder is not"));
  EXPECT_EQ(open(dir.path(), {.item = "optimizer.pt"})->load().at("epoch"), Tree(3));
  EXPECT_THAT([&] { open(kTorch + "objects.pt", {.item = "optimizer.pt"}); },
              FailsWith(Code::kInvalidArgument, "an item was requested"));
}

}  // namespace
}  // namespace cairn

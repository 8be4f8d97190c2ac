// sharding_callback.cc -- deciding yourself which tensors share a file: a callback that keeps the
// tensors of a layer together.
//
// It is the same kind of callback that tf.train.experimental.ShardingCallback is. Run it with a
// folder; it writes a set of safetensors files there, one for every two layers, and reads it back.
#include <cairn/cairn.h>
#include <cairn/tensorflow.h>

#include <cstring>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

namespace {

using namespace cairn;

class LayersTogether : public ShardingCallback {
 public:
  explicit LayersTogether(std::int64_t layers) : layers_(layers) {}

  [[nodiscard]] std::string description() const override {
    return "So many layers a shard, each with all its tensors.";
  }

  [[nodiscard]] std::vector<Shard> operator()(
      std::span<const ShardableTensor> tensors) const override {
    OrderedMap<std::int64_t> layer_numbers;  // in the order in which layers are met
    std::vector<Shard> shards;
    for (const ShardableTensor& tensor : tensors) {
      const std::string layer = tensor.checkpoint_key.substr(0, tensor.checkpoint_key.find('.'));
      if (layer_numbers.find(layer) == nullptr)
        layer_numbers[layer] = static_cast<std::int64_t>(layer_numbers.size());
      const auto shard = static_cast<std::size_t>(*layer_numbers.find(layer) / layers_);
      if (shard >= shards.size()) shards.resize(shard + 1);
      shards[shard][tensor.checkpoint_key][tensor.slice_spec] = tensor.tensor;
    }
    return shards;
  }

  [[nodiscard]] std::vector<std::pair<std::string, Value>> kwargs() const override {
    return {{"layers", layers_}};
  }

 private:
  std::int64_t layers_;
};

// Three layers with a kernel and a bias each.
std::vector<TensorSource> model() {
  std::vector<TensorSource> tensors;
  for (const std::string layer : {"embed", "dense", "head"}) {
    tensors.push_back({layer + ".kernel", DType::kFloat32, {8, 4}});
    tensors.push_back({layer + ".bias", DType::kFloat32, {4}});
  }
  return tensors;
}

void fill(std::span<const TensorPiece> pieces) {
  for (const TensorPiece& piece : pieces)
    std::memset(piece.out.data(), static_cast<int>(piece.tensor), piece.out.size());
}

std::string describe(const std::string& file) {
  std::string text = std::filesystem::path(file).filename().string() + ":";
  const std::unique_ptr<Checkpoint> checkpoint = open(file);
  for (const TensorInfo& tensor : checkpoint->tensors()) text += " " + tensor.name;
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: sharding_callback FOLDER\n";
    return 2;
  }
  try {
    std::filesystem::create_directories(argv[1]);
    SafetensorsWriteOptions options;
    options.sharding_callback = std::make_shared<LayersTogether>(2);
    options.if_exists = IfExists::kReplace;
    const std::vector<std::string> files =
        write_safetensors(std::string(argv[1]) + "/model.safetensors", model(), fill, options);
    for (std::size_t i = 0; i + 1 < files.size(); ++i) std::cout << describe(files[i]) << "\n";

    const bool good = files.size() == 3 && open(files[0])->tensors().size() == 4 &&
                      open(files.back())->tensors().size() == 6;
    if (!good) std::cout << "the files are not what the callback asked for\n";
    return good ? 0 : 1;
  } catch (const Error& e) {
    std::cerr << e.what() << "\n";
    return 1;
  }
}

// custom_type_handler.cc -- a leaf type of your own in an Orbax checkpoint: an int8 tensor with one
// scale per row.
//
// The handler says how such a leaf is stored: as two arrays, which any Zarr reader can read, under
// the leaf's name. Run it with a folder to save into; it saves, restores and compares.
#include <cairn/cairn.h>
#include <cairn/orbax/handlers.h>
#include <cairn/orbax/item_storage.h>
#include <cairn/orbax/leaf_args.h>
#include <cairn/orbax/pytree_checkpoint_handler.h>

#include <cstring>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

namespace {

using namespace cairn;

struct Quantized {
  Array values;  // int8, (rows, columns)
  Array scales;  // float32, (rows,)
};

StoreArray stored(std::string name, const std::shared_ptr<const Quantized>& leaf,
                  const Array& part) {
  StoreArray out;
  out.name = std::move(name);
  out.dtype = out.source_dtype = part.dtype();
  out.shape = part.shape();
  out.data = part.bytes().data();
  out.owner = leaf;  // lives until it is written
  return out;
}

class QuantizedHandler : public TypeHandler {
 public:
  [[nodiscard]] std::string typestr() const override { return "quantized"; }

  [[nodiscard]] std::vector<ValueMetadata> metadata(
      std::span<const ParamInfo> infos) const override {
    std::vector<ValueMetadata> out(infos.size());
    for (std::size_t i = 0; i < infos.size(); ++i) {
      out[i].typestr = typestr();
      out[i].name = infos[i].name;
      const std::string name = infos[i].name + "/values";
      out[i].shape = infos[i].reader->arrays(std::vector<std::string_view>{name})[0].shape;
    }
    return out;
  }

  Futures serialize(std::span<const Tree> values, std::span<const ParamInfo> infos,
                    std::span<const SaveArgs> /*args*/) const override {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto leaf = std::make_shared<const Quantized>(*values[i].custom<Quantized>());
      infos[i].writer->add_array(stored(infos[i].name + "/values", leaf, leaf->values));
      infos[i].writer->add_array(stored(infos[i].name + "/scales", leaf, leaf->scales));
    }
    return {infos[0].writer->written()};
  }

  [[nodiscard]] std::vector<Tree> deserialize(
      std::span<const ParamInfo> infos, std::span<const AnyRestoreArgs> /*args*/) const override {
    std::vector<Tree> out;
    for (const ParamInfo& info : infos) {
      const std::string names[] = {info.name + "/values", info.name + "/scales"};
      const std::vector<TensorInfo> found =
          info.reader->arrays(std::vector<std::string_view>{names[0], names[1]});
      Quantized leaf{Array::allocate(found[0].dtype, found[0].shape),
                     Array::allocate(found[1].dtype, found[1].shape)};
      const std::vector<ItemReader::Read> reads = {
          {names[0], Box::whole(found[0].shape), leaf.values.mutable_view()},
          {names[1], Box::whole(found[1].shape), leaf.scales.mutable_view()}};
      info.reader->read(reads);
      out.emplace_back(std::move(leaf));
    }
    return out;
  }
};

bool same(const Array& a, const Array& b) {
  return a.shape() == b.shape() &&
         std::memcmp(a.bytes().data(), b.bytes().data(), a.bytes().size()) == 0;
}

Quantized example() {
  Quantized leaf{Array::allocate(DType::kInt8, {2, 3}), Array::allocate(DType::kFloat32, {2})};
  for (int i = 0; i < 6; ++i) leaf.values.mutable_view().data[i] = static_cast<std::byte>(i * 40);
  const float scales[] = {0.5F, 0.25F};
  std::memcpy(leaf.scales.mutable_view().data, scales, sizeof scales);
  return leaf;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: custom_type_handler FOLDER\n";
    return 2;
  }
  try {
    const auto registry = std::make_shared<TypeHandlerRegistry>(standard_type_handlers());
    registry->add(typeid(Quantized), std::make_shared<QuantizedHandler>());
    PyTreeCheckpointHandlerOptions options;
    options.type_handler_registry = registry;
    PyTreeCheckpointHandler handler(options);

    const Quantized leaf = example();
    handler.save(argv[1], {.item = Tree::Dict{{"w", leaf}, {"step", 7}}});
    handler.finalize(argv[1]);
    const Tree back = handler.restore(argv[1]);
    const auto* restored = back.find("w")->custom<Quantized>();
    const bool good = restored != nullptr && same(restored->values, leaf.values) &&
                      same(restored->scales, leaf.scales);
    std::cout << (good ? "restored a quantized tensor of shape " +
                             shape_text(restored->values.shape())
                       : "the tensor is not what was saved")
              << "\n";
    return good ? 0 : 1;
  } catch (const Error& e) {
    std::cerr << e.what() << "\n";
    return 1;
  }
}

// endings.cc -- the extensions of Cairn's formats and of other programs.
#include <cairn/tools/source/endings.h>

#include <cairn/base/errors.h>

#include <algorithm>
#include <array>

namespace cairn::inline v0 {
namespace {

constexpr std::array kEndings = {
    Ending{".safetensors", TargetFormat::kSafetensors},
    Ending{".npz", TargetFormat::kNpz},
    Ending{".msgpack", TargetFormat::kMsgpack},
    Ending{".pt", TargetFormat::kTorch},
    Ending{".pth", TargetFormat::kTorch},
    Ending{".index", TargetFormat::kTensorFlow},
    // Spellings of these that would make a folder.
    Ending{".safetensor", {}},
    Ending{".safetensors.index.json", {}},
    Ending{".msgpk", {}},
    Ending{".mpk", {}},
    // PyTorch and pickle
    Ending{".pt2", {}},
    Ending{".ptl", {}},
    Ending{".bin", {}},
    Ending{".pkl", {}},
    Ending{".pickle", {}},
    Ending{".joblib", {}},
    Ending{".distcp", {}},
    // NumPy, HDF5, Keras, TensorFlow
    Ending{".npy", {}},
    Ending{".h5", {}},
    Ending{".hdf5", {}},
    Ending{".keras", {}},
    Ending{".pb", {}},
    Ending{".tflite", {}},
    // others
    Ending{".gguf", {}},
    Ending{".ggml", {}},
    Ending{".onnx", {}},
    Ending{".mat", {}},
    Ending{".zip", {}},
    Ending{".tar", {}},
    Ending{".gz", {}},
    Ending{".json", {}},
};

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool ends_with(std::string_view path, std::string_view ending) {
  return path.size() >= ending.size() &&
         std::equal(ending.begin(), ending.end(), path.end() - static_cast<long>(ending.size()),
                    [](char a, char b) { return a == lower(b); });
}

}  // namespace

const Ending* find_ending(std::string_view path) {
  while (path.ends_with('/')) path.remove_suffix(1);
  const auto found = std::find_if(kEndings.begin(), kEndings.end(), [&](const Ending& ending) {
    return ends_with(path, ending.text);
  });
  return found == kEndings.end() ? nullptr : &*found;
}

std::string written_endings() {
  std::string text;
  for (const Ending& ending : kEndings)
    if (ending.format && *ending.format != TargetFormat::kTensorFlow)
      text.append(text.empty() ? "" : ", ").append(ending.text);
  return text;
}

TargetFormat save_format_of(std::string_view path) {
  const Ending* ending = find_ending(path);
  if (ending == nullptr) return TargetFormat::kOrbax;
  if (ending->format) return *ending->format;
  invalid_argument(std::string(path) + ": Cairn does not write " + std::string(ending->text) +
                   " files: expected " + written_endings() +
                   ", or a name without such an extension for the folder of an Orbax checkpoint "
                   "(or choose the format \"orbax\" for a folder of this name)");
}

}  // namespace cairn::inline v0

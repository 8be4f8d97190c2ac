// convert.cc -- converts a checkpoint of any format to bfloat16 safetensors: convert SOURCE TARGET.
#include <cairn/cairn.h>

#include <cstdio>
#include <string>

int main(int argc, char** argv) try {
  if (argc != 3) return std::fputs("usage: convert SOURCE TARGET.safetensors\n", stderr), 2;
  const auto source = cairn::open(argv[1]);

  const cairn::ConvertOptions options{
      .format = cairn::TargetFormat::kSafetensors,
      .dtype = cairn::DType::kBfloat16,  // floating arrays only
      .skip_unsupported = true,          // strings and empty nodes
      .if_exists = cairn::IfExists::kReplace,
      .resources = {.memory = 256 << 20},  // whatever the size of the checkpoint
  };

  const cairn::ConvertReport report = cairn::convert(*source, argv[2], options);
  std::printf(
      "%llu tensors, %llu bytes, %llu cast\n", static_cast<unsigned long long>(report.tensors),
      static_cast<unsigned long long>(report.bytes), static_cast<unsigned long long>(report.cast));
  for (const auto& [name, why] : report.skipped)
    std::printf("left out: %s (%s)\n", name.c_str(), why.c_str());
} catch (const cairn::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 3;
}

// foreign_test.cc -- files of other programs are recognised by their first bytes, and by no less.
#include <cairn/formats/foreign.h>

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace cairn {
namespace {

using namespace std::string_view_literals;

std::string_view format_of(std::string_view text) {
  return foreign_format(std::as_bytes(std::span(text)));
}

// The header of a zip file's first member.
std::string zip(std::string_view name) {
  std::string text("PK\3\4", 4);
  text.append(22, '\0');
  text += {static_cast<char>(name.size()), '\0', '\0', '\0'};
  return text.append(name);
}

TEST(Foreign, NamesTheFormats) {
  const struct {
    std::string content;
    std::string_view words;
  } kFiles[] = {
      {zip("archive/data.pkl"), "a PyTorch checkpoint"},
      {zip("m/constants.pkl"), "a PyTorch checkpoint"},
      {zip("m/.format_version"), "a PyTorch checkpoint"},
      {zip("metadata.json"), "a Keras model"},
      {zip("config.json"), "a Keras model"},
      {std::string("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"),
       "a PyTorch checkpoint (legacy format)"},
      {"GGUF", "a GGUF model"},
      {"\x89HDF\r\n\x1a\n", "an HDF5 file, as Keras writes (.h5)"},
      {std::string(512, '\0') + "\x89HDF\r\n\x1a\n", "an HDF5 file, as Keras writes (.h5)"},
      {std::string(2048, '\0') + "\x89HDF\r\n\x1a\n", "an HDF5 file, as Keras writes (.h5)"},
      {"\x80\x04\x95", "a Python pickle"},
  };
  for (const auto& file : kFiles) {
    EXPECT_EQ(format_of(file.content), file.words);
    for (std::size_t cut = 0; cut < file.content.size(); ++cut) {
      const std::string_view found = format_of(std::string_view(file.content).substr(0, cut));
      EXPECT_TRUE(found.empty() || found == "a Python pickle") << file.words << " cut at " << cut;
    }
  }
}

TEST(Foreign, NamesNothingElse) {
  for (const std::string_view text : {""sv, "\x80"sv, "\x80\x06\x95"sv, "\x80\x01\x95"sv,
                                      "PK\3\4"sv, "GGU"sv, "{}"sv, "\x93NUMPY"sv})
    EXPECT_EQ(format_of(text), "");
  EXPECT_EQ(format_of(zip("array.npy")), "");
  EXPECT_EQ(format_of(zip("data.pkl")), "");
  EXPECT_EQ(format_of(std::string(600, '\0') + "\x89HDF\r\n\x1a\n"), "");
}

}  // namespace
}  // namespace cairn

// foreign_test.cc -- files of other programs are recognised by their first bytes, and by no less.
#include <cairn/formats/files/foreign_content.h>

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "tests/support/tar.h"

namespace cairn {
namespace {

using namespace std::string_view_literals;

// What the file is, "" if it is not recognised. The file has more bytes than these.
std::string format_of(std::string_view text) {
  const auto content = foreign_content(std::as_bytes(std::span(text)), text.size() + 9000);
  return content ? content->what : "";
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
      {std::string("\x80\x05\x95\x0d\0\0\0\0\0\0\0\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19",
                   23),
       "a PyTorch checkpoint (legacy format)"},
      {"L119547037146038801333356L\n.", "a PyTorch checkpoint (legacy format)"},
      {"GGUF", "a GGUF model"},
      {"\x89HDF\r\n\x1a\n", "an HDF5 file, as Keras writes (.h5)"},
      {std::string(512, '\0') + "\x89HDF\r\n\x1a\n", "an HDF5 file, as Keras writes (.h5)"},
      {std::string(2048, '\0') + "\x89HDF\r\n\x1a\n", "an HDF5 file, as Keras writes (.h5)"},
      {"\x80\x04\x95", "a Python pickle"},
      {"\x08\x07\x12\x07pytorch\x1a", "an ONNX model"},
      {std::string("\x08\x0a:\x80\x01\x0a", 6), "an ONNX model"},
      {"\x1f\x8b", "compressed with gzip"},
      {std::string(257, 'x') + "ustar", "a tar archive"},
      {testing::tar_header("tensors", 0).substr(0, 262), "a PyTorch checkpoint (tar form)"},
      {testing::tar_member("x", "9 size=3\n", 'x') + "sys_info", "a PyTorch checkpoint (tar form)"},
  };
  for (const auto& file : kFiles) {
    EXPECT_EQ(format_of(file.content), file.words);
    for (std::size_t cut = 0; cut < file.content.size(); ++cut) {
      const std::string found(format_of(std::string_view(file.content).substr(0, cut)));
      EXPECT_NE(found, file.words.substr(0, file.words.find(" (.h5)"))) << " cut at " << cut;
    }
  }
}

TEST(Foreign, NamesNothingElse) {
  for (const std::string_view text :
       {"\x80"sv, "\x80\x06\x95"sv, "\x80\x01\x95"sv, "PK\3\4"sv, "GGU\0"sv, "\x93NUMPY"sv})
    EXPECT_EQ(format_of(text), "");
  EXPECT_EQ(format_of(zip("array.npy")), "");
  EXPECT_EQ(format_of(zip("data.pkl")), "a zip archive without arrays");
  EXPECT_EQ(format_of(std::string(600, '\0') + "\x89HDF\r\n\x1a\n"), "");
}

TEST(Foreign, NamesWhatDownloadsLeave) {
  const auto what = [](std::string_view text) {
    const auto content = foreign_content(std::as_bytes(std::span(text)), text.size());
    return content ? content->message() : "";
  };
  const auto begins = [&](std::string_view text, std::string_view words) {
    EXPECT_TRUE(what(text).starts_with(words)) << what(text);
  };
  begins("", "is empty (0 bytes), not a checkpoint; ");
  begins(std::string(20, '\0'), "is 20 zero bytes, not a checkpoint; ");
  begins(std::string(9000, '\0'), "is zeros in its first 4096 bytes, not a checkpoint; ");
  begins("\xef\xbb\xbf \n<!DOCTYPE html>", "is a web page (HTML), not a checkpoint; ");
  begins("<HTML>", "is a web page (HTML), ");
  begins("<?xml version=\"1.0\"?>\n<Error>", "is an XML document, such as the error of an object ");
  begins("{\"error\": \"no\"}", "is JSON (\"{\"error\": \"no\"}\"), not a checkpoint; ");
  begins("Entry not found", "is text (\"Entry not found\"), not a checkpoint; ");
  begins("version https://git-lfs.github.com/spec/v1\n",
         "is a Git LFS pointer, not the file itself");
  begins(std::string(4095, 'x') + "\xc3", "is text (\"xxxxx");  // a character cut in two
  EXPECT_EQ(what(std::string(40, 'x') + "\xc3"), "");
  EXPECT_EQ(what("text\1"), "");
}

}  // namespace
}  // namespace cairn

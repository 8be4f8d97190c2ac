// proto_text_tool.cc -- prints, for each named file, what breaks its protocol buffer's text: the
// offset and the reason on one line, or an empty line.
#include <cairn/base/visible_text.h>
#include <cairn/error.h>
#include <cairn/io/file.h>
#include <cairn/orbax/read/proto_text.h>

#include <cstdio>

int main(int count, char** names) try {
  for (int i = 1; i < count; ++i) {
    const cairn::Bytes content = cairn::read_file(names[i], 1U << 20U);
    const auto fault = cairn::orbax::find_proto_text_fault(cairn::as_text(content));
    if (fault) std::printf("%zu: %s", fault->offset, cairn::visible_text(fault->message).c_str());
    std::printf("\n");
  }
  return 0;
} catch (const cairn::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 3;
}

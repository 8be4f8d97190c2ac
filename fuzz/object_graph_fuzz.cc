// object_graph_fuzz.cc -- parses any bytes as an object graph. A graph that parses must encode to
// bytes that parse to the same graph.
#include <cairn/error.h>
#include <cairn/formats/tensorflow/index/object_graph.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const cairn::ObjectGraph graph =
        cairn::parse_object_graph({reinterpret_cast<const std::byte*>(data), size});
    if (cairn::parse_object_graph(cairn::encode_object_graph(graph)) != graph) std::abort();
    for (const auto& node : graph)
      for (const auto& child : node.children)
        if (cairn::unescape_trackable(cairn::escape_trackable(child.name)) != child.name)
          std::abort();
  } catch (const cairn::Error&) {  // a rejected input is fine
  }
  return 0;
}

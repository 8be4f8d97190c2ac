// xml.h -- reads the small XML documents with which S3 answers. It is bounded in depth, elements
// and bytes, and knows no DTD: the entities are the five of XML and numbers.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::inline v0::object {

// One element. Attributes and prefixes of namespaces are dropped.
struct XmlElement {
  std::string name;
  std::string text;  // the character data of this element alone
  std::vector<XmlElement> children;

  // The first child of that name; null if there is none.
  [[nodiscard]] const XmlElement* find(std::string_view child) const;
  // The text of the first child of that name; "" if there is none.
  [[nodiscard]] std::string_view text_of(std::string_view child) const;
};

// The limits of parse_xml; a document beyond them is data_loss. A listing has 1000 keys of at most
// 1024 bytes, each of them encoded as three.
struct XmlLimits {
  std::size_t max_depth = 16;
  std::size_t max_elements = 100'000;
  std::size_t max_bytes = std::size_t{16} << 20U;
};

// Returns the root element. Throws data_loss with the byte offset for anything but one well-formed
// document.
XmlElement parse_xml(std::string_view text, const XmlLimits& limits = {});

}  // namespace cairn::inline v0::object

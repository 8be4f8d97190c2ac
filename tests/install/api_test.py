"""The public API is the recorded one: a change of it is seen, and is meant."""

import difflib
import os
import sys

import pytest

from places import CAIRN, ROOT, good

RECORDED = ROOT / "tests/install/api"


@pytest.mark.parametrize("part", ["cpp", "python", "command"])
def test_the_api_is_the_recorded_one(part):
    environment = os.environ | {"CAIRN_BIN": str(CAIRN)}
    listed = good(sys.executable, ROOT / "scripts/public_api.py", part, env=environment)
    recorded = (RECORDED / f"{part}.txt").read_text()
    changes = list(difflib.unified_diff(recorded.splitlines(), listed.splitlines(), "recorded", "now", lineterm="", n=0))
    assert len(listed.splitlines()) > 50
    assert not changes, "\n".join([*changes, f"If this is meant: scripts/public_api.py {part} > tests/install/api/{part}.txt, "
                                   "and say it in CHANGELOG.md (docs/reference/stability.md)"])


def test_the_list_of_headers_sees_every_kind_of_change():
    """Members, functions, enumerators and defaults; no comments, bodies or private members."""
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        import public_api
    finally:
        sys.path.pop(0)

    def listed(text):
        walk = public_api.Declarations(public_api.tokens(text))
        walk.walk()
        return walk.found

    assert listed("""
#pragma once
namespace cairn::inline v0 {
// A comment; with a semicolon.
enum class Kind : std::uint8_t { kOne, kTwo };
struct Options {
  int a = 1;  // default
  std::function<void(int)> call = {};
  struct Inner { bool b = false; };
  bool operator==(const Options&) const = default;
};
class Thing : public Base {
 public:
  explicit Thing(int n) : n_(n) {}
  [[nodiscard]] int n() const { return n_; }
 private:
  struct Hidden { int secret; };
  int n_ = 0;
};
template <class T>
T twice(T value) { return value + value; }
void save(const std::string& path, const Options& options = {});
}
""") == [
        "enum class Kind : std::uint8_t { kOne, kTwo }",
        "struct Options",
        "Options: int a = 1",
        "Options: std::function<void(int)> call = {}",
        "Options: struct Inner",
        "Options::Inner: bool b = false",
        "Options: bool operator==(const Options&) const = default",
        "class Thing : public Base",
        "Thing: explicit Thing(int n)",
        "Thing: [[nodiscard]] int n() const",
        "template<class T> T twice(T value)",
        "void save(const std::string& path, const Options& options = {})",
    ]

// headers.h -- the headers that nearly every test includes, compiled once for all of them
// (tests/CMakeLists.txt).
//
// None of Cairn's own. ccache takes a precompiled header from its cache although a comment in one
// of the headers is new, and GCC then does not know that header again: "#pragma once" compares
// contents, so it is compiled a second time, and every definition in it is an error.
#pragma once

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

// headers.h -- the headers that nearly every test includes, compiled once for all of them
// (tests/CMakeLists.txt).
#pragma once

#include <cairn/error.h>
#include <cairn/types.h>
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

#!/bin/sh
# Prints Cairn's version. It stands in CMakeLists.txt alone; everything else derives it.
sed -n 's/^project(cairn VERSION \([0-9.]*\).*/\1/p' "$(dirname "$0")/../CMakeLists.txt"

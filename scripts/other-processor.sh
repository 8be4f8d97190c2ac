#!/usr/bin/env bash
# Tests Cairn on another processor under QEMU's user mode: other-processor.sh NAME VENV JOBS.
# NAME is
#   arm64   cross-builds the unit tests, the static command and the Python package, and runs them
#   x86-64  runs this machine's command on the oldest and on the newest x86-64 that QEMU knows
#   s390x   big-endian: checks that a build is refused, and runs the tests of readers
set -euo pipefail
name=$1
venv=$2
jobs=$3
export CAIRN_BIN=$PWD/build/bin/cairn

# The command reads and writes the same there as here: compare CASTS COMMAND...
compare() {
  echo "Comparing with ${*:2}"
  CAIRN_OTHER_CASTS=$1 CAIRN_OTHER="${*:2}" \
    "$venv/bin/python" -m pytest -q -n "$jobs" tests/processors/processors_test.py
}

# The Python package does the same on arm64 as here, with the NumPy of its index.
compare_package() {
  local site=$PWD/build/arm64/site pip=("$venv/bin/python" -m pip install --quiet)
  rm -rf "$site"
  "${pip[@]}" --target "$site" --no-deps --only-binary :all: \
    --platform manylinux_2_27_aarch64 --platform manylinux_2_28_aarch64 \
    -c tests/interop/requirements.txt numpy ml_dtypes
  cp -r python/cairn "$site/cairn"
  cp build/arm64/python/_cairn.*.so "$site/cairn/"
  CAIRN_OTHER_PYTHON="qemu-aarch64 -L $root -E PYTHONPATH=$site $root/usr/bin/$python" \
    "$venv/bin/python" -m pytest -q tests/processors/package_test.py
}

# Tests that QEMU's user mode cannot run, each with the reason.
unsupported=(
  FolderHandle.KnowsWhatIsThere  # opens "/": QEMU opens the folder with the libraries instead
  # A program is missing: with QEMU's vfork, posix_spawn succeeds and the child ends with 127.
  Surroundings.RunPrograms
  # Threads play processes that meet in a folder. In QEMU, each thread reads a start time of its own
  # from /proc/self/stat, so the others take a process for another one.
  "Files.*" "FilesCoordinator.*" "*/files_2_*" "*/files_7_*"
  "*/files_of_a_run_2_*" "*/files_of_a_run_7_*" "*ThroughFiles"
)

# Tests of readers that run on a big-endian processor. The others write files of formats that Cairn
# does not write there, map files, or compare or change bytes as a little-endian machine would.
declare -A readers=(
  [base_test]='*'
  [ocdbt_test]='-Envelope.*:Manifest.ConfigsThatAreRefused'
  [orbax_test]='*Golden*'
  [tree_test]='-Msgpack.FindsTheLeavesThatThePackagesWrote
    :Msgpack.MakesATreeWhoseArraysShareTheBytesWhereTheyLieWell'
  [zarr_test]='*Golden*'
  [formats_test]='BundleIndex.*:BundleReader.*:BundleStrings.*:Deepspeed.*:Distributed.*:Megatron.*
    :MsgpackFile.*:NpzReader.*:SafetensorsReader.*:*Sstable*:TarFile.*:TorchCheckpointing.*
    :TorchFile.*
    -BundleReader.ReadsTheSlicesWhoseFilesAreThere:BundleReader.ViewsWhatIsAligned
    :BundleStrings.ALengthOfMoreThanFourBytesCountsEightInTheChecksum
    :Megatron.ReadsFlattenedTensorsAsTheyAreStored:MsgpackFile.LoadsWhatTheBytesSay
    :NpzReader.ReadsBackWhatCairnWrites:NpzReader.NoticesEveryFlippedBitOfValues
    :NpzReader.RefusesArchivesThatLie:NpzReader.RefusesOverlapsNamesAndMethods
    :SafetensorsReader.MapsWhatLiesAlignedAndNothingElse
    :SafetensorsReader.ReadsAnyBoxIntoAnyStrides
    :SafetensorsReader.ReadsThousandsOfSmallOnesAsOnePlan
    :TorchFile.ConvertsToOtherFormats'
)

case $name in
  arm64)
    scripts/target-root.sh arm64
    root=$PWD/build/arm64-root/root
    python=$(basename "$root"/usr/include/python3.*)
    scripts/configure.sh arm64 -DCAIRN_BUILD_PYTHON=ON -DPython_EXECUTABLE="$PWD/$venv/bin/python" \
      -DPython_INCLUDE_DIR="$root/usr/include/$python" \
      -DSKBUILD_SOABI="cpython-${python//[!0-9]/}-aarch64-linux-gnu" \
      -Dnanobind_DIR="$("$venv/bin/python" -m nanobind --cmake_dir)"
    grep '^Left out' build/configure-arm64.log
    cmake --build build/arm64 -j "$jobs" --target all cairn_static_cli
    echo "Left out under QEMU: ${unsupported[*]}"
    GTEST_FILTER=-$(IFS=:; echo "${unsupported[*]}") \
      ctest --test-dir build/arm64 --output-on-failure --timeout 7200 -j "$jobs"
    compare NEON qemu-aarch64 build/arm64/static/cairn
    compare_package
    ;;
  x86-64)
    compare baseline qemu-x86_64 -cpu qemu64,-pni,-cx16 "$CAIRN_BIN"  # no SSE3
    compare AVX2 qemu-x86_64 -cpu max "$CAIRN_BIN"
    ;;
  s390x)
    scripts/target-root.sh s390x
    rm -rf build/s390x  # CMake would keep the option below
    if scripts/configure.sh s390x 2>build/s390x.log; then
      echo "CMake accepts a big-endian processor, where Cairn does not write all formats" >&2
      exit 1
    fi
    grep -q 's390x is big-endian' build/s390x.log || { cat build/s390x.log >&2; exit 1; }
    echo "Refused on s390x: it is big-endian"
    scripts/configure.sh s390x -DCAIRN_ALLOW_BIG_ENDIAN=ON
    cmake --build build/s390x -j "$jobs" --target "${!readers[@]}"
    for test in "${!readers[@]}"; do
      qemu-s390x -s 67108864 -L build/s390x-root/root "build/s390x/tests/$test" \
        --gtest_brief=1 --gtest_filter="${readers[$test]//[[:space:]]/}"
    done
    ;;
  *) echo "other-processor.sh: expected arm64, x86-64 or s390x, not '$name'" >&2; exit 2 ;;
esac

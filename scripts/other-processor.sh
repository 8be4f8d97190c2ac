#!/usr/bin/env bash
# Tests Cairn on another processor under QEMU's user mode: other-processor.sh NAME VENV JOBS.
# NAME is
#   arm64   cross-builds the unit tests, the static command and the Python wheel, and runs them
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

# The wheel for arm64 is complete, and the package in it does the same there as here, with the NumPy
# of its index.
compare_package() {
  local root=$PWD/build/arm64-root/root site=$PWD/build/arm64/site wheel python
  wheel=$(echo build/dist-arm64/*.whl)
  python=$(basename "$root"/usr/include/python3.*)
  rm -rf "$site"
  # The wheel's own tag is a platform that it installs on; the others are those of its index.
  "$venv/bin/python" -m pip install --quiet --target "$site" --no-deps --only-binary :all: \
    --python-version "${python#python}" --platform "$(sed 's/.*-\(.*\)\.whl/\1/' <<<"$wheel")" \
    --platform manylinux_2_27_aarch64 --platform manylinux_2_28_aarch64 \
    -c tests/interop/requirements.txt "$wheel" numpy ml_dtypes
  CAIRN_OTHER_WHEEL=$wheel CAIRN_WHEEL_TOOLS=build/wheel-venv/${python#python}/bin/python \
    CAIRN_OTHER="qemu-aarch64 -L $root $site/cairn/bin/cairn" \
    CAIRN_OTHER_PYTHON="qemu-aarch64 -L $root -E PYTHONPATH=$site $root/usr/bin/$python" \
    "$venv/bin/python" -m pytest -q tests/processors/wheel_test.py tests/processors/package_test.py
}

# Tests that QEMU's user mode cannot run, each with the reason.
unsupported=(
  FolderHandle.OpensTheRoot  # QEMU opens the folder with the libraries instead
  # With QEMU's vfork, posix_spawn succeeds and the child ends with 127.
  Surroundings.NameAProgramThatIsMissing
)

# Tests of orbax_test that fork processes with threads. In QEMU's user mode such a fork ends if its
# parent has threads, too, as those that other tests leave. So each test gets a process of its own.
alone=(
  Killed/SingleReplicaProcesses.HaveAllOrAreToldWhoIsGone/0
  Killed/SingleReplicaProcesses.HaveAllOrAreToldWhoIsGone/1
  Protocols/ManagerProcessesCrash.TheOtherEndsAndTheNextPairGoesOn/AtomicRename
  Protocols/ManagerProcessesCrash.TheOtherEndsAndTheNextPairGoesOn/CommitMarker
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
    scripts/wheel-arm64.sh "$jobs"
    grep '^Left out' build/configure-arm64.log
    cmake --build build/arm64 -j "$jobs" --target all cairn_static_cli
    echo "Left out under QEMU: ${unsupported[*]}"
    GTEST_FILTER=-$(IFS=:; echo "${unsupported[*]}:${alone[*]}") \
      ctest --test-dir build/arm64 --output-on-failure --timeout 7200 -j "$jobs"
    for test in "${alone[@]}"; do
      qemu-aarch64 -L build/arm64-root/root build/arm64/tests/orbax_test --gtest_brief=1 \
        --gtest_filter="$test" | tee /dev/stderr | grep 'PASSED.* 1 test\.' >/dev/null
    done
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

"""What a wheel is made of, for its tests on this machine and under QEMU."""

import re

from places import good

# What any Linux with the wheel's version of glibc has: the rest must be in the wheel.
SYSTEM = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "libstdc++.so.6", "libz.so.1",
          "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}


def platform_tag(tools, wheel):
    """The tag that auditwheel, in the environment of the Python `tools`, finds for the wheel."""
    shown = " ".join(good(tools, "-m", "auditwheel", "show", wheel).split())
    (tag,) = re.findall(r'consistent with the following platform tag: "(\w+)"', shown)
    return tag


def programs_of(unpacked):
    """The module, the command, and the libraries in an unpacked wheel."""
    (module,) = (unpacked / "cairn").glob("_cairn*.so")
    libraries = sorted((unpacked / "cairn_checkpoint.libs").iterdir())
    return [module, unpacked / "cairn/bin/cairn", *libraries]


def check_libraries(programs):
    """Each of programs_of() finds the libraries that it needs, in the wheel or on any Linux."""
    carried = {path.name for path in programs[2:]}
    for program in programs:
        dynamic = good("readelf", "-d", program)
        needed = set(re.findall(r"NEEDED.*\[(.*)\]", dynamic))
        assert needed <= carried | SYSTEM, program
        assert not needed & carried or re.search(r"R(UN)?PATH.*\$ORIGIN", dynamic), program

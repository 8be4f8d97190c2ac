"""Conan's recipe of Cairn: `conan create packaging/conan` in a clone."""

import pathlib
import re

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy
from conan.tools.gnu import PkgConfigDeps


class CairnRecipe(ConanFile):
    name = "cairn"
    description = "Checkpoints of machine-learning models: save, restore, inspect, verify, convert"
    license = "Apache-2.0"
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "with_command": [True, False], "with_isal": [True, False]}
    default_options = {"shared": True, "with_command": True, "with_isal": True}

    def set_version(self):
        text = (self._root() / "CMakeLists.txt").read_text()
        self.version = re.search(r"project\(cairn VERSION ([0-9.]+)", text)[1]

    def export_sources(self):
        for pattern in ("CMakeLists.txt", "LICENSE", "cairn/*", "cli/*", "cmake/*", "include/*",
                        "scripts/pages.sh", "scripts/man.awk"):
            copy(self, pattern, src=str(self._root()), dst=self.export_sources_folder)

    def _root(self):
        return pathlib.Path(self.recipe_folder).resolve().parents[1]

    def requirements(self):
        for reference in ("bzip2/1.0.8", "c-blosc/1.21.6", "fmt/[>=9 <13]", "lz4/[>=1.9 <2]",
                          "pcre2/[>=10.40 <11]", "rapidjson/[>=1.1.0]", "snappy/[>=1.1.9 <2]",
                          "xxhash/[>=0.8.1 <1]", "zlib/[>=1.2.11 <2]", "zstd/[>=1.5.5 <2]"):
            self.requires(reference)
        if self.options.with_isal:
            self.requires("isa-l/[>=2.30.0]")
        if self.options.with_command:
            self.requires("cli11/[>=2.3 <3]")

    def layout(self):
        cmake_layout(self)

    def generate(self):
        deps = CMakeDeps(self)
        # The names that cmake/dependencies.cmake asks for.
        deps.set_property("c-blosc", "cmake_file_name", "Blosc")
        deps.set_property("c-blosc", "cmake_target_name", "Blosc::blosc")
        deps.generate()
        PkgConfigDeps(self).generate()
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables |= {
            "CAIRN_BUILD_SHARED": bool(self.options.shared),
            "CAIRN_BUILD_CLI": bool(self.options.with_command),
            "CAIRN_WITH_ISAL": bool(self.options.with_isal),
            "CAIRN_WITH_MPI": "OFF",
            "CAIRN_WARNINGS_AS_ERRORS": False,
        }
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build(target="cairn_installed")

    def package(self):
        licences = pathlib.Path(self.package_folder) / "licenses"
        copy(self, "LICENSE", src=self.source_folder, dst=str(licences))
        CMake(self).install()

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "cairn")
        self.cpp_info.set_property("cmake_target_name", "cairn::cairn")
        self.cpp_info.set_property("pkg_config_name", "cairn")
        self.cpp_info.libs = ["cairn"]
        if not self.options.shared:
            self.cpp_info.system_libs = ["pthread", "dl"]

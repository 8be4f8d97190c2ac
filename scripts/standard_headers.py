#!/usr/bin/env python3
"""Checks that every source and header includes what declares the names of `std` that it uses, and no
standard header of which it uses nothing.

An include of an include counts, if it is the project's own. lint.sh compiles each source with the
standard library precompiled, which takes half of the time: an include that is missing would then
go unseen. Writes a header with all standard headers, for that: standard_headers.py FILE.
"""

import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from lint_stamps import INCLUDE, ROOT, closure, content

# What declares a name. Names with `::` stand for all names below them.
NAMES = {
    "algorithm": """adjacent_find all_of any_of binary_search clamp copy copy_if copy_n count count_if equal fill
        find find_if find_if_not inplace_merge is_sorted is_sorted_until lower_bound max max_element min mismatch
        none_of partition partition_point ranges:: replace reverse rotate set_difference set_union sort stable_partition
        stable_sort transform unique upper_bound""",
    "any": "any",
    "array": "array",
    "atomic": "atomic atomic_ref memory_order_acquire memory_order_relaxed memory_order_release",
    "bit": "bit_cast bit_ceil bit_width countl_one countr_zero endian:: has_single_bit rotl rotr",
    "cctype": "isalnum",
    "charconv": "chars_format:: from_chars from_chars_result to_chars",
    "chrono": "chrono chrono::",
    "cmath": """abs ceil copysign exp fabs floor frexp hypot ilogb isfinite isinf isnan isnormal ldexp llround log10 log2 nan pow scalbn
        signbit
        sqrt trunc""",
    "compare": "is_eq is_lt",
    "complex": "complex",
    "concepts": """convertible_to derived_from equality_comparable integral same_as signed_integral
        unsigned_integral""",
    "condition_variable": "condition_variable",
    "csignal": "signal",
    "cstddef": "byte nullptr_t ptrdiff_t size_t to_integer",
    "cstdint": "int16_t int32_t int64_t int8_t uint16_t uint32_t uint64_t uint8_t uintptr_t",
    "cstdio": "FILE fflush fputs fwrite snprintf sscanf",
    "cstdlib": "free getenv",
    "cstring": "memchr memcmp memcpy memmove memset strcmp strerror",
    "ctime": "time time_t tm",
    "deque": "deque",
    "exception": "current_exception exception exception_ptr rethrow_exception uncaught_exceptions",
    "filesystem": "filesystem filesystem::",
    "fstream": "ifstream",
    "functional": "function greater_equal less not_fn ref",
    "future": "async future future_status:: launch:: promise shared_future",
    "initializer_list": "initializer_list",
    "istream": "istream",
    "iterator": "back_inserter begin end inserter make_move_iterator next prev size",
    "limits": "numeric_limits",
    "list": "list",
    "map": "map multimap",
    "memory": """enable_shared_from_this make_shared make_unique make_unique_for_overwrite shared_ptr static_pointer_cast
        unique_ptr weak_ptr""",
    "memory_resource": "pmr::",
    "mutex": "call_once defer_lock lock_guard mutex once_flag scoped_lock try_to_lock unique_lock",
    "new": "align_val_t bad_alloc nothrow",
    "numeric": "accumulate gcd inner_product iota",
    "optional": "nullopt optional",
    "random": "mt19937_64 random_device uniform_real_distribution",
    "set": "multiset set",
    "semaphore": "binary_semaphore counting_semaphore",
    "shared_mutex": "shared_lock shared_mutex",
    "span": "as_bytes as_writable_bytes span",
    "sstream": "istringstream ostringstream",
    "stop_token": "stop_source stop_token",
    "string": "erase erase_if getline hash stoi stoul stoull string string:: to_string",
    "string_view": "string_view string_view:: string_view_literals",
    "system_error": "errc errc:: error_code generic_category system_error",
    "thread": "this_thread:: thread thread::",
    "tuple": "tie tuple tuple_size",
    "type_traits": """conditional_t decay_t enable_if_t is_arithmetic_v is_class_v is_constructible_v is_convertible_v
        is_floating_point_v is_integral_v is_nothrow_move_assignable_v is_nothrow_move_constructible_v is_same_v
        is_signed_v is_unsigned_v is_void_v make_signed_t remove_cv_t
        remove_cvref_t""",
    "typeindex": "type_index",
    "unordered_map": "unordered_map unordered_multimap",
    "unordered_set": "unordered_set",
    "utility": """cmp_equal exchange forward in_place_index in_place_type index_sequence make_index_sequence move pair
        swap""",
    "variant": "get_if holds_alternative monostate variant variant_size visit",
}
# Names that several headers declare.
ALSO = {"errc": {"charconv"}, "errc::": {"charconv"}, "error_code": {"filesystem"}, "less": {"map", "set"},
        "get": {"tuple", "utility", "variant", "array"}, "hash": {"string_view", "functional", "memory"},
        "erase": {"vector", "map", "set", "deque"}, "erase_if": {"vector", "map", "set", "deque", "unordered_map"},
        "swap": {"vector", "string"}, "size_t": {"string", "vector", "cstdint", "span", "array", "cstring"},
        "begin": {"array", "string", "vector"}, "end": {"array", "string", "vector"}, "size": {"array", "string", "vector"},
        "byte": {"span"}, "abs": {"cstdlib"}, "vector": {"vector"}}
# What a header declares outside of `std`.
MACROS = {"csignal": r"SIG[A-Z]+|sigset_t|sigaction", "cstdint": r"U?INT(8|16|32|64|PTR)_MAX|INT(8|16|32|64)_MIN",
          "cstdio": "EOF|stdout|stderr|stdin|rename(at2?)?|RENAME_[A-Z]+", "cmath": "INFINITY|NAN|M_PI", "cstdlib": "EXIT_[A-Z]+"}
NAME = re.compile(r"\bstd::(\w+(?:::\w+)?)")
COMMENT = re.compile(r"//[^\n]*")


def headers_of():
    """For each name, the headers of which one must be included."""
    found = {}
    for header, names in NAMES.items():
        for name in names.split():
            found.setdefault(name, set()).add(header)
    for name, headers in ALSO.items():
        found.setdefault(name, set()).update(headers)
    return found


def unused(file):
    """The standard headers that the file includes itself, and of which it uses no name."""
    text = COMMENT.sub("", content(file))
    used = {part for name in NAME.findall(text) for part in (name, name.partition("::")[0], name.partition("::")[0] + "::")}
    for header in INCLUDE.findall(content(file)):
        names = set(NAMES.get(header, "").split()) | {name for name, headers in ALSO.items() if header in headers}
        macros = MACROS.get(header)
        if header in NAMES and not names & used and not (macros and re.search(rf"\b({macros})\b", text)):
            yield f"{file}: uses nothing of <{header}>"


def problems(file, headers):
    yield from unused(file)
    included = {name for part in closure(file) for name in INCLUDE.findall(content(part))}
    for name in sorted(set(NAME.findall(COMMENT.sub("", content(file))))):
        outer = name.partition("::")[0]
        wanted = headers.get(name) or headers.get(outer + "::") or headers.get(outer)
        if wanted is None:
            yield f"{file}: scripts/standard_headers.py does not know std::{name}; name its header there"
        elif not wanted & included:
            yield f"{file}: std::{name} needs #include <{min(wanted)}>"


def write_header_of_all(file):
    every = sorted(set().union(*headers_of().values()))
    file.write_text("".join(f"#include <{header}>\n" for header in every))


def main():
    headers = headers_of()
    write_header_of_all(pathlib.Path(sys.argv[1]))
    files = subprocess.run(["git", "ls-files", "--", *(f"{folder}/*.{end}" for folder in ("include", "cairn", "cli") for end in ("cc", "h"))],
                           cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    found = [problem for file in files for problem in problems(file, headers)]
    if found:
        sys.exit("\n".join(found))


if __name__ == "__main__":
    main()

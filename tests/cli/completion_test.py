"""Completion in bash, zsh and fish. The zsh test presses real keys."""

import os
import pathlib
import re
import subprocess

import numpy as np
import pytest
import safetensors.numpy

from command import CAIRN, COMMANDS, ROOT, USAGE, good, run

GOLDEN = ROOT / "tests" / "golden" / "orbax" / "orbax-0.12.8"
FORMATS = ["safetensors", "npz", "msgpack", "torch", "dcp", "tensorflow", "orbax", "orbax-zarr3", "orbax-files"]
# words of a command line after "cairn" -> what a shell must offer for the last one
VALUES = [
    (["convert", "a.safetensors", "x", "--to", ""], FORMATS),
    (["convert", "--to", "orbax-"], ["orbax-zarr3", "orbax-files"]),
    (["reshard", "--to", ""], ["orbax", "orbax-zarr3", "orbax-files", "dcp"]),
    (["convert", "--compression", ""], ["auto", "reproducible", "smallest", "none", "zstd", "blosc"]),
    (["convert", "--dialect", ""], ["flax", "orbax"]),
    (["merge", "a.safetensors", "a.safetensors", "--to", ""], FORMATS),
    (["convert", "--dtype", "b"], ["bfloat16"]),
    (["ls", "--sort", "s"], ["size", "shape"]),
    (["diff", "--sort", "r"], ["rms", "relative"]),
    (["tree", "--color", ""], ["auto", "always", "never"]),
    (["verify", "--progress", "a"], ["auto", "always"]),
    (["verify", "--progress", "j"], ["json"]),
    (["schema", "re"], ["repair", "report", "reshard"]),
    (["doctor", "note"], ["note.txt"]),
    (["info", GOLDEN / "manager_prefix", "--step", ""], ["7", "123"]),
    (["cat", GOLDEN / "composite", "--item", "p"], ["params"]),
    (["ls", "a.safetensors", "params.l"], ["params.layers.0.w", "params.layers.1.w"]),
    (["ls", "--sort", "size", "a.safetensors", "params.l"], ["params.layers.0.w", "params.layers.1.w"]),
    (["convert", "a.safetensors", "x", "--include", "m"], ["mask"]),
    (["ls", "--memory", ""], []),
    (["convert", "--rename", ""], []),
    (["cat", "--output", "note"], ["note.txt"]),
    (["ls", "--ca-file", "note"], ["note.txt"]),
    (["ls", "--endpoint", ""], []),
    (["ls", "note"], ["note.txt"]),
    (["completion", "z"], ["zsh"]),
]


def value_ids(value):
    return " ".join(str(word).rpartition("/")[2] for word in value) if isinstance(value, list) else None


def with_cairn(folder):
    """An environment whose PATH contains the command."""
    bin = folder / "bin"
    bin.mkdir(exist_ok=True)
    if not (bin / "cairn").exists():
        (bin / "cairn").symlink_to(pathlib.Path(CAIRN).resolve())
    return os.environ | {"PATH": f"{bin}:{os.environ['PATH']}"}


def complete(folder, *words):
    """The completions that bash offers for the last word."""
    script = """
        source <(cairn completion bash)
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _cairn; printf '%s\\n' "${COMPREPLY[@]}"
    """
    done = subprocess.run(["bash", "-c", script, "bash", "cairn", *map(str, words)], capture_output=True, text=True, timeout=60, env=with_cairn(folder))
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize("words, offered", VALUES, ids=value_ids)
def test_values_in_bash(folder, words, offered, monkeypatch):
    monkeypatch.chdir(folder)
    assert complete(folder, *words) == offered


@pytest.mark.parametrize("words, offered", [(words, offered) for words, offered in VALUES if offered and words[0] in ("convert", "reshard", "ls", "diff", "tree")], ids=value_ids)
def test_offered_values_are_accepted(folder, words, offered, tmp_path):
    """None of the offered values is an unknown one."""
    if not words[-2].startswith("--") or words[-2] == "--include":
        return
    targets = {"convert": ["a.safetensors", tmp_path / "x", "--dry-run"], "reshard": ["a.safetensors", tmp_path / "x", "--chunk-bytes", "1MiB", "--dry-run"],
               "diff": ["a.safetensors", "a.safetensors"]}
    for value in offered:
        args = [*targets.get(words[0], ["a.safetensors"]), words[-2], value]
        args += ["--to", "orbax"] if words[0] == "convert" and words[-2] != "--to" else []
        done = run(words[0], *args, cwd=folder)
        assert done.returncode != USAGE or b"expected" not in done.stderr, done


def test_names_are_not_run(tmp_path):
    """A name from a file is text, in every shell, and not a command."""
    names = ["$(touch owned)", "`touch owned`", "a;touch owned", "x y", "~root", "a*"]
    safetensors.numpy.save_file({name: np.zeros(1) for name in names}, tmp_path / "a.safetensors")
    script = 'cd "$1"; source <(cairn completion bash); COMP_WORDS=(cairn cat a.safetensors ""); COMP_CWORD=3; _cairn; printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", script, "bash", tmp_path], capture_output=True, text=True, timeout=60, env=with_cairn(tmp_path))
    assert sorted(done.stdout.splitlines()) == sorted(names) and done.stderr == ""
    (tmp_path / "cairn.fish").write_text(good("completion", "fish"))
    done = subprocess.run(["fish", "--no-config", "-c", "source cairn.fish; complete -C 'cairn cat a.safetensors '"], capture_output=True, text=True, timeout=60, cwd=tmp_path, env=with_cairn(tmp_path))
    assert "touch" in done.stdout
    assert not (tmp_path / "owned").exists()


def test_bash_completion(folder):
    assert complete(folder, "c") == ["cat", "convert", "compact", "clean", "completion"]
    assert complete(folder, "convert", "--to", "=", "orbax-z") == ["orbax-zarr3"]
    assert complete(folder, "convert", "--to", "=") == FORMATS
    assert "--skip-unsupported" in complete(folder, "convert", "--s")
    assert complete(folder, "cat", folder / "a.safetensors", "params.l") == ["params.layers.0.w", "params.layers.1.w"]
    assert complete(folder, "ls", folder / "note") == [str(folder / "note.txt")]
    assert complete(folder, "completion", "z") == ["zsh"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_completions_name_every_command(shell):
    text = good("completion", shell)
    assert all(command in text for command in COMMANDS)


def test_fish_completion(folder):
    script = folder / "cairn.fish"
    script.write_text(good("completion", "fish"))

    def offered(line):
        done = subprocess.run(["fish", "--no-config", "-c", f"source {script}; complete -C '{line}'"], capture_output=True, text=True, timeout=60, cwd=folder, env=with_cairn(folder))
        assert done.stderr == ""
        return [entry.split("\t")[0] for entry in done.stdout.splitlines()]

    assert sorted(offered("cairn c")) == ["cat", "clean", "compact", "completion", "convert"]
    assert offered("cairn convert --skip") == ["--skip-unsupported"]
    assert offered("cairn cat a.safetensors params.l") == ["params.layers.0.w", "params.layers.1.w"]
    assert offered("cairn completion z") == ["zsh"]
    for words, values in VALUES:
        assert sorted(offered(" ".join(["cairn", *map(str, words)]))) == sorted(values), words
    assert all(" -r" not in line for line in script.read_text().splitlines() if " -l json" in line or " -l dry-run" in line)


def test_descriptions_are_whole():
    """A description is that of --help, joined to one line and cut only where a clause ends."""
    for line in good("completion", "fish").splitlines():
        found = re.search(r"-l ([\w-]+).* -d '((?:[^'\\]|\\.)*)'", line)
        command = re.search(r"__fish_seen_subcommand_from (\w+)", line)
        if not found or not command:
            continue
        shown = re.sub(r"\\(.)", r"\1", found[2])
        assert len(shown) <= 78, line
        start, more, _ = shown.partition(", ...")
        assert start.count("(") == start.count(")"), line
        page = " ".join(good(command[1], "--help").split())
        assert start in page, (command[1], shown)
        after = page[page.index(start) + len(start) :][:3]
        # the next option, a clause or a bracket; "..." stands for more of a list
        assert after.startswith(", ") if more else re.match(r"$|; |: | \(|\. | -| [A-Z]", after), (command[1], shown, after)


def test_zsh_completion(folder):
    """The first key press in a new shell completes each line, because the shell loads the script at that moment."""
    functions = folder / "zsh"
    functions.mkdir()
    (functions / "_cairn").write_text(good("completion", "zsh"))

    def completed(line):
        script = f"""
            zmodload zsh/zpty
            zpty shell 'PS1= TERM=dumb zsh -f -i'
            zpty -w shell 'fpath=({functions} $fpath); autoload -Uz compinit; compinit -u -D; stty -echo; print READY'
            zpty -r shell out '*READY*READY*'
            zpty -w shell $'bindkey "^X" accept-line; zle -N show; show() {{ print -r -- "<$BUFFER>"; exit }}; bindkey "^B" show; print SET'
            zpty -r shell out '*SET*SET*'
            zpty -n -w shell $'{line}\\t\\x02'
            zpty -r shell out '*<*>*'
            print -r -- "$out"
        """
        done = subprocess.run(["zsh", "-f", "-c", script], capture_output=True, text=True, timeout=60, cwd=folder, env=with_cairn(folder))
        return done.stdout.rsplit("<", 1)[1].split(">")[0]

    assert completed("cairn conv") == "cairn convert "
    assert completed("cairn convert --skip") == "cairn convert --skip-unsupported "
    assert completed("cairn cat a.safetensors params.e") == "cairn cat a.safetensors params.embed "
    assert completed("cairn convert --to ms") == "cairn convert --to msgpack "
    assert completed("cairn convert --to=ms") == "cairn convert --to=msgpack "
    assert completed("cairn tree --color al") == "cairn tree --color always "
    assert completed("cairn ls --sort na") == "cairn ls --sort name "
    assert completed(f"cairn info {GOLDEN}/manager_prefix --step 1") == f"cairn info {GOLDEN}/manager_prefix --step 123 "
    assert completed(f"cairn cat {GOLDEN}/composite --item par") == f"cairn cat {GOLDEN}/composite --item params "
    assert completed("cairn ls a.safetensors params.e") == "cairn ls a.safetensors params.embed "
    assert completed("cairn cat --slice 0 a.safetensors params.e") == "cairn cat --slice 0 a.safetensors params.embed "

"""Completion in bash, zsh and fish. The zsh test presses real keys."""

import os
import pathlib
import subprocess

import pytest

from command import CAIRN, COMMANDS, good


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


def test_bash_completion(folder):
    assert complete(folder, "c") == ["cat", "convert", "compact", "clean", "completion"]
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
    assert completed("cairn cat --slice 0 a.safetensors params.e") == "cairn cat --slice 0 a.safetensors params.embed "

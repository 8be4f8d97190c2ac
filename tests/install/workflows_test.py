""".github: the workflows are lint-free and run what exists, actions are pinned, templates ask for what helps."""

import pathlib
import re
import sys

import pytest
import yaml

from places import ROOT, good

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
TEMPLATES = [path for path in sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml")) if path.name != "config.yml"]


def steps_of(path):
    jobs = yaml.safe_load(path.read_text())["jobs"].values()
    return [step for job in jobs for step in job["steps"]]


def commands_of(path):
    return "\n".join(step["run"] for step in steps_of(path) if "run" in step)


def test_lint():
    """The checks of actionlint, which this program began as; actionlint's own package downloads it."""
    good(pathlib.Path(sys.executable).with_name("jactionlint"), "--profile", "correctness", "--shellcheck=", "--pyflakes=",
         *WORKFLOWS)


def test_there_is_a_gate_a_nightly_run_and_a_release():
    assert [path.name for path in WORKFLOWS] == ["gate.yml", "nightly.yml", "release.yml"]
    # YAML 1.1 reads the key `on` as true.
    gate, nightly, release = (yaml.safe_load(path.read_text())[True] for path in WORKFLOWS)
    assert "pull_request" in gate and "schedule" in nightly and release == {"push": {"tags": ["v*"]}}
    (tested,) = re.findall(r"^(make \w+)", (ROOT / ".ci/run").read_text(), re.MULTILINE)
    assert tested in commands_of(WORKFLOWS[0]).splitlines() and tested in (ROOT / "README.md").read_text()
    assert "make test-long" in commands_of(WORKFLOWS[1])
    assert "make dist" in commands_of(WORKFLOWS[2]) and 'test "v$(scripts/version.sh)" = "$GITHUB_REF_NAME"' in commands_of(WORKFLOWS[2])


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_what_it_runs_exists(path):
    text = commands_of(path)
    makefile = (ROOT / "Makefile").read_text()
    targets = re.findall(r"^make ([a-z-]+)", text, re.MULTILINE)
    assert all(f"\n{target}:" in makefile for target in targets), targets
    scripts = re.findall(r"scripts/[\w/.-]+", text)
    assert all((ROOT / script).stat().st_mode & 0o111 for script in scripts), scripts
    assert targets or scripts


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_and_rights_are_few(path):
    used = re.findall(r"^\s*(?:- )?uses: (.*)$", path.read_text(), re.MULTILINE)
    assert used and all(re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+", line) for line in used), used
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        assert job["timeout-minutes"] <= 360
    writers = {name: job["permissions"] for name, job in workflow["jobs"].items() if "permissions" in job}
    assert writers == ({"github": {"contents": "write"}, "pypi": {"id-token": "write"}} if path.stem == "release" else {})


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_an_issue_template_is_a_form(path):
    form = yaml.safe_load(path.read_text())
    assert {"name", "description", "body"} <= form.keys()
    fields = [part for part in form["body"] if part["type"] != "markdown"]
    assert fields and all(part["type"] in ("textarea", "input", "dropdown", "checkboxes") for part in fields)
    assert len({part["id"] for part in fields}) == len(fields)
    assert all(part["attributes"]["label"] for part in fields)


def test_a_bug_report_has_the_version_and_the_checkpoint():
    bug = yaml.safe_load((ROOT / ".github/ISSUE_TEMPLATE/bug.yml").read_text())
    asked = {part["attributes"]["label"]: part["validations"] for part in bug["body"] if part["type"] != "markdown"}
    for command in ("cairn --version", "cairn info CHECKPOINT"):
        assert asked[f"Output of `{command}`"] == {"required": True}
        assert command in (ROOT / ".github/pull_request_template.md").read_text()

"""Events and warnings of cairn.orbax in two processes, beside the real Orbax.

docs/reference/observer.md has the table. tests/python/orbax/monitoring_test.py does the same in one process.
"""

import pathlib
import re

import process_cases_events as cases
import pytest
from processes import start

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "reference" / "observer.md"
# Comes as often as the package waits: a restore of cairn.orbax does not, and that of Orbax does.
WAITS = "/jax/checkpoint/sync_global_devices_duration_sec"
# TensorStore has read nothing where its cache has everything.
RAW_READS = re.compile("/jax/orbax/read/worker/io/(raw|compression)")
# Process 1 reads the arguments of a save before process 0 says that the path exists.
KNOWN = {("save_fails", 1, "/jax/orbax/deprecation/checkpointer_legacy_args")}


@pytest.fixture(scope="module")
def job():
    (job,) = start("process_cases_events", 2)
    yield job
    job.close()


def compared(reports, situation, process):
    """Reports and their counts, without those that the packages make in their own way."""
    return {
        repr(report): count
        for report, count in reports
        if report[1] != WAITS
        and not RAW_READS.search(report[1])
        and (situation, process, report[1]) not in KNOWN
    }


@pytest.mark.parametrize("situation", cases.SITUATIONS)
def test_both_report_the_same(tmp_path, job, situation):
    found = []
    for folder, package in (("ours", "cairn.orbax"), ("theirs", "orbax.checkpoint")):
        (tmp_path / folder).mkdir()
        found.append(job.run("reports", package, situation, tmp_path / folder))
    for process, pair in enumerate(zip(*found, strict=True)):
        ours, theirs = (compared(one, situation, process) for one in pair)
        missing = {one: count for one, count in theirs.items() if ours.get(one) != count}
        added = {one: count for one, count in ours.items() if theirs.get(one) != count}
        assert (process, missing, added) == (process, {}, {})
        assert theirs or situation == "managed_read_only"
        if "save" in situation or situation == "managed":
            assert all(WAITS in [report[1] for report, _ in one] for one in pair)


def test_process_0_reports_what_a_job_does_once(tmp_path, job):
    """The page says which events only process 0 reports."""
    (tmp_path / "ours").mkdir()
    first, second = job.run("reports", "cairn.orbax", "managed", tmp_path / "ours")
    names = [{report[1] for report, _ in one if report[0] != "warning"} for one in (first, second)]
    page = PAGE.read_text()
    section = page[page.index("### Several processes") : page.index("## Compared with Orbax")]
    listed = set(re.findall(r"`(/jax/[a-z0-9_/]+)`", section))
    assert names[0] - names[1] <= listed and names[1] - names[0] == set()
    assert len(names[0] - names[1]) > 15

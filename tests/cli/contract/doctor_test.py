"""cairn doctor: what it finds here, what it tries and cleans up, and that it shows no secret and asks no network."""

import ctypes
import http.server
import json
import os
import re
import subprocess
import threading

import pytest

from command import CAIRN, FAILURE, GOOD, NO, ROOT, USAGE, bad, good, run
from schemas import checked
from stores_test import environment, server

SECRET = "sEcReTsEcReTsEcReT0123456789"


def found(*args, statuses=(GOOD,), **kwargs):
    """(section, name) -> check."""
    document = checked("doctor", *args, statuses=statuses, **kwargs)
    keys = [(check["section"], check["name"]) for check in document["checks"]]
    assert len(set(keys)) == len(keys)
    assert document["ok"] == all(check["result"] != "problem" for check in document["checks"])
    return dict(zip(keys, document["checks"], strict=True))


def test_machine():
    checks = found()
    assert checks["cairn", "version"]["value"] in good("--version")
    for library in ("zstd", "zlib", "bzip2", "blosc", "lz4", "snappy"):
        assert f"{library} {checks['libraries', library]['value']}" in good("--version")
    assert re.match(r"\d+\.\d+", checks["libraries", "pcre2"]["value"]) and re.match(r"\d+\.\d+\.\d+", checks["libraries", "xxhash"]["value"])
    assert int(checks["processor", "threads"]["value"]) == len(os.sched_getaffinity(0))
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0.9 * total <= checks["memory", "total"]["bytes"] <= 1.1 * total
    assert checks["system", "kernel"]["value"].startswith(f"Linux {os.uname().release}")
    assert checks["command", "path"]["value"] == os.path.realpath(CAIRN)
    assert {section for section, _ in checks} == {"cairn", "system", "libraries", "processor", "memory", "limits", "command", "stores", "credentials"}


def test_libraries_of_stores():
    checks = found()
    for library, name in (("libcurl", "libcurl.so.4"), ("libcrypto", "libcrypto.so.3")):
        try:
            ctypes.CDLL(name)
        except OSError:
            continue
        assert checks["stores", library]["result"] == "good", checks["stores", library]
        assert re.search(r"\d+\.\d+\.\d+", checks["stores", library]["value"])


def test_text_and_json_agree():
    text = good("doctor")
    for (section, name), check in found().items():
        assert f"\n{section}\n" in f"\n{text}" and f"\n  {name} " in text
        if check["result"] != "good":
            assert f"note: {check['advice']}" in text
    assert text.splitlines()[-1].startswith("no problem")


def test_folder(tmp_path):
    checks = found(tmp_path)
    for name in ("new folder", "write and sync", "rename a folder"):
        assert checks["folder", name]["value"] == "yes"
    stat = os.statvfs(tmp_path)
    assert 0.5 < checks["folder", "free space"]["bytes"] / (stat.f_bavail * stat.f_frsize) < 2
    shown = subprocess.run(["stat", "-f", "-c", "%T", tmp_path], capture_output=True, text=True).stdout.strip()
    assert checks["folder", "file system"]["value"].split(",")[0] in shown or "UNKNOWN" in shown or shown in ("ext2/ext3", "overlayfs")
    assert sorted(tmp_path.iterdir()) == []


def test_a_file_stands_for_its_folder(folder):
    before = sorted(folder.iterdir())
    assert found(folder / "a.safetensors")["folder", "path"]["value"] == str(folder)
    assert sorted(folder.iterdir()) == before


def test_a_file_url(tmp_path):
    assert found(f"file://{tmp_path}")["folder", "path"]["value"] == str(tmp_path)


def test_hard_links_as_the_system_has_them(tmp_path):
    (tmp_path / "a").write_text("x")
    os.link(tmp_path / "a", tmp_path / "b")
    assert found(tmp_path)["folder", "hard links"]["value"] == "yes"


@pytest.mark.parametrize("shm", ["/dev/shm", "/proc/self"])
def test_other_file_systems(shm):
    """tmpfs has no reflinks, and into /proc nobody writes."""
    checks = found(shm, statuses=(GOOD, NO))
    if shm == "/dev/shm":
        assert checks["folder", "file system"]["value"] == "tmpfs" and checks["folder", "reflinks"]["value"] == "no"
    else:
        assert checks["folder", "new folder"]["result"] == "problem" and "saved" in checks["folder", "new folder"]["advice"]
        assert run("doctor", shm).stdout.decode().splitlines()[-1].startswith("1 problem")


def test_a_folder_without_permission(tmp_path):
    place = tmp_path / "locked"
    place.mkdir()
    place.chmod(0o555)
    command = [CAIRN, "doctor", place, "--json"]
    if os.geteuid() == 0:  # root may write everywhere
        tmp_path.chmod(0o755)
        command = ["setpriv", "--reuid=65534", "--clear-groups", *command]
        for parent in tmp_path.parents[:3]:  # pytest's own folders
            parent.chmod(parent.stat().st_mode | 0o011)
    done = subprocess.run(command, capture_output=True, timeout=60)
    assert done.returncode == NO, done
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert "Permission denied" in checks["new folder"]["value"] and checks["new folder"]["result"] == "problem"
    assert list(place.iterdir()) == []


def test_a_full_file_system(tmp_path):
    """A file may have no byte here."""
    done = subprocess.run(["bash", "-c", f'ulimit -f 0; exec "{CAIRN}" doctor "{tmp_path}" --json | cat'], capture_output=True, timeout=60)
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert checks["write and sync"]["result"] == "problem" and "File too large" in checks["write and sync"]["value"]
    assert checks["file size"]["bytes"] == 0 and checks["file size"]["result"] == "note"
    assert sorted(tmp_path.iterdir()) == []


def test_few_open_files():
    done = subprocess.run(["bash", "-c", f'ulimit -n 100; exec "{CAIRN}" doctor --json'], capture_output=True, timeout=60)
    files = next(check for check in json.loads(done.stdout)["checks"] if check["name"] == "open files")
    assert files["value"] == "100" and files["result"] == "note" and "ulimit -Hn" in files["advice"]


def test_nothing_there(tmp_path):
    assert "missing" in bad(FAILURE, "doctor", tmp_path / "missing")
    assert bad(USAGE, "doctor", "ftp://host/run")
    for url in (f"https://me:{SECRET}@host/run", f"https://host/run?X-Amz-Signature={SECRET}"):
        for options in ([], ["--json"]):
            done = run("doctor", url, *options)
            assert done.returncode != GOOD and SECRET.encode() not in done.stdout + done.stderr, done


# ---- credentials ----


def sources(tmp_path, **variables):
    done = run("doctor", "--json", env=environment(tmp_path, **variables))
    text = run("doctor", env=environment(tmp_path, **variables))
    for stream in (done.stdout, done.stderr, text.stdout, text.stderr):
        assert SECRET.encode() not in stream and b"KEYOFTHEENVIRONMENT" not in stream
    return {check["name"]: check for check in json.loads(done.stdout)["checks"] if check["section"] == "credentials"}


def values(checks):
    return [checks[name]["value"] for name in ("s3", "gs", "hf")]


def test_no_credentials(tmp_path):
    assert values(sources(tmp_path)) == ["no credentials", "the metadata server (not asked)", "none: requests go unsigned"]


def test_variables(tmp_path):
    found = sources(tmp_path, AWS_ACCESS_KEY_ID="KEYOFTHEENVIRONMENT", AWS_SECRET_ACCESS_KEY=SECRET, HF_TOKEN=SECRET)
    assert values(found)[0] == "AWS_ACCESS_KEY_ID" and values(found)[2] == "HF_TOKEN"


def test_files(tmp_path):
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text(f"[dev]\naws_access_key_id = KEYOFTHEENVIRONMENT\naws_secret_access_key = {SECRET}\n")
    (tmp_path / "gs.json").write_text(json.dumps({"type": "authorized_user", "client_id": "x", "client_secret": SECRET, "refresh_token": SECRET}))
    (tmp_path / "token").write_text(SECRET)
    found = sources(tmp_path, AWS_PROFILE="dev", GOOGLE_APPLICATION_CREDENTIALS=str(tmp_path / "gs.json"), HF_TOKEN_PATH=str(tmp_path / "token"))
    assert values(found) == ["profile dev", str(tmp_path / "gs.json"), str(tmp_path / "token")]


def test_broken_credentials_are_a_note(tmp_path):
    (tmp_path / "gs.json").write_text(f'{{"type": "authorized_user", "client_secret": "{SECRET}"')
    found = sources(tmp_path, AWS_ACCESS_KEY_ID="KEYOFTHEENVIRONMENT", GOOGLE_APPLICATION_CREDENTIALS=str(tmp_path / "gs.json"))
    assert "only one of them is set" in found["s3"]["value"] and found["s3"]["result"] == "note"
    assert "not valid JSON" in found["gs"]["value"] and found["gs"]["result"] == "note"


def test_services_are_not_asked(tmp_path):
    """Each of them would be asked at this address."""
    with server() as (endpoint, seen):
        host = endpoint.removeprefix("http://")
        for variables in ({"AWS_EC2_METADATA_DISABLED": "false", "AWS_EC2_METADATA_SERVICE_ENDPOINT": endpoint}, {"AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{endpoint}/keys"},
                          {"GCE_METADATA_HOST": host}, {"http_proxy": endpoint, "https_proxy": endpoint}):
            assert values(sources(tmp_path, **variables))
        assert values(sources(tmp_path, AWS_CONTAINER_CREDENTIALS_FULL_URI=f"{endpoint}/keys"))[0] == "the container (not asked)"
    assert seen.empty()


def test_proxies_are_named_only(tmp_path):
    done = run("doctor", "--json", env=environment(tmp_path, https_proxy=f"http://me:{SECRET}@proxy"))
    assert SECRET.encode() not in done.stdout and b"https_proxy" in done.stdout


# ---- URLs ----


def test_a_store_that_refuses(tmp_path):
    keys = {"AWS_ACCESS_KEY_ID": "KEYOFTHEENVIRONMENT", "AWS_SECRET_ACCESS_KEY": SECRET}
    with server() as (endpoint, seen):
        done = run("doctor", "s3://bucket/run", "--endpoint", endpoint, "--json", env=environment(tmp_path, **keys))
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert done.returncode == NO and checks["answers"]["result"] == "problem" and "AccessDenied" in checks["answers"]["advice"]
    assert SECRET.encode() not in done.stdout + done.stderr
    assert "list-type=2" in seen.get_nowait()[0] and seen.empty(), "one request, for a list"


class Listing(http.server.BaseHTTPRequestHandler):
    """A bucket with nothing, and a web server with one file."""

    def do_HEAD(self):
        self.send_response(200 if self.path == "/there" else 404)
        self.send_header("Content-Length", "5")
        self.end_headers()

    def do_GET(self):
        self.server.methods.append(self.command)
        body = b"<ListBucketResult><IsTruncated>false</IsTruncated><KeyCount>0</KeyCount></ListBucketResult>"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def listing():
    made = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Listing)
    made.methods = []
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


def test_a_store_that_answers(listing, tmp_path):
    endpoint = f"http://127.0.0.1:{listing.server_port}"
    done = run("doctor", "s3://bucket/run", "--endpoint", endpoint, "--anonymous", "--json", env=environment(tmp_path))
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert done.returncode == GOOD, done
    assert re.fullmatch(r"yes, in \d+ ms", checks["answers"]["value"]) and checks["content"]["result"] == "note"
    assert set(listing.methods) == {"GET"}, "nothing is written"
    for name, there in (("there", "yes"), ("gone", "no")):
        done = run("doctor", f"{endpoint}/{name}", "--json", env=environment(tmp_path))
        checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
        assert (done.returncode, checks["content"]["value"]) == (GOOD, there), done


def test_broken_credentials_are_a_problem_of_the_store(tmp_path):
    done = run("doctor", "s3://bucket/run", "--json", env=environment(tmp_path, AWS_ACCESS_KEY_ID="KEYOFTHEENVIRONMENT"))
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert done.returncode == NO and "only one of them is set" in checks["answers"]["advice"]


def test_a_store_that_is_not_there(tmp_path):
    done = run("doctor", "s3://bucket/run", "--endpoint", "http://127.0.0.1:1", "--anonymous", env=environment(tmp_path))
    assert done.returncode == NO and b"problem: " in done.stdout and done.stdout.splitlines()[-1].startswith(b"1 problem")


def test_documented_sections(tmp_path):
    text = (ROOT / "docs" / "reference" / "cli.md").read_text()
    section = text[text.index("### doctor\n"):text.index("### dump\n")]
    documented = set(re.findall(r"`(\w+)`", " ".join(line.split("|")[1] for line in section.splitlines() if line.startswith("| `"))))
    assert documented == {name for name, _ in found(tmp_path)} | {"store"}

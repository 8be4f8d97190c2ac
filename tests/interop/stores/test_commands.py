"""The options of the command that say how to reach a store, on real servers."""

import json
import re

import cairn_cli
import pytest
import store_clients

DEMO = cairn_cli.ROOT / "tests/golden/orbax/demo"
STEPS = cairn_cli.ROOT / "tests/golden/orbax/orbax-0.12.8/manager_prefix"
NOBODY = "http://127.0.0.1:1"  # a port without a server
WRONG = store_clients.Keys("nobody", "not-the-secret")


def without(store, *names):
    """The store's variables, but not these."""
    return {name: value for name, value in store.variables().items() if name not in names}


def listing(place, environment=None, *options):
    return cairn_cli.call("ls", "--json", place, *options, env=environment)


@pytest.fixture
def demo(seaweedfs):
    store_clients.upload(seaweedfs, DEMO)
    return seaweedfs


@pytest.fixture(scope="module")
def local():
    done = listing(DEMO)
    assert done.returncode == cairn_cli.GOOD
    return done.stdout


def test_the_endpoint_beats_the_environment(s3, local):
    store_clients.upload(s3, DEMO)
    environment = s3.variables() | {"AWS_ENDPOINT_URL": NOBODY, "AWS_ENDPOINT_URL_S3": NOBODY}
    done = listing(s3.url, environment, "--endpoint", s3.endpoint)
    assert (done.returncode, done.stdout) == (cairn_cli.GOOD, local), done.stderr


def test_the_endpoint_of_google_s_store(gcs, local):
    folder = cairn_cli.ROOT / "tests/golden/orbax/orbax-0.12.8/composite"
    store_clients.upload(gcs, folder)
    environment = gcs.variables() | {"STORAGE_EMULATOR_HOST": NOBODY}
    options = ["--endpoint", gcs.endpoint, "--allow-uncommitted"]
    done = listing(gcs.url, environment, *options)
    assert done.returncode == cairn_cli.GOOD, done.stderr
    assert done.stdout == listing(folder).stdout


def test_progress_shows_the_requests(demo):
    done = cairn_cli.call("verify", demo.url, "--progress=always", env=demo.variables())
    assert done.returncode == cairn_cli.GOOD, done.stderr
    assert re.search(rb"B/s  [\d.]+ \w+ in \d+ requests?\b", done.stderr), done.stderr
    assert b" request" not in cairn_cli.call("verify", DEMO, "--progress=always").stderr


def test_the_region_beats_the_environment(demo, local):
    """An impossible one of the environment is not even looked at."""
    environment = demo.variables() | {"AWS_REGION": "not a region"}
    assert listing(demo.url, environment).returncode == cairn_cli.IO
    done = listing(demo.url, environment, "--region", demo.region)
    assert (done.returncode, done.stdout) == (cairn_cli.GOOD, local), done.stderr


@pytest.mark.parametrize("command", ["ls", "info", "tree", "du", "stats", "verify"])
def test_a_wrong_secret_is_an_error_without_the_secret(s3, command):
    store_clients.upload(s3, DEMO)
    wrong = store_clients.Keys(s3.admin.access, "not-the-secret")
    done = cairn_cli.call(command, s3.url, env=s3.variables(wrong))
    output = (done.stdout + done.stderr).decode()
    assert done.returncode == cairn_cli.IO and "SignatureDoesNotMatch" in output
    assert wrong.secret not in output and s3.admin.secret not in output
    assert "Signature=" not in output and "Credential=" not in output


def test_anonymous_sends_no_keys(s3):
    """The bucket is not public, so a store refuses what has no signature."""
    store_clients.upload(s3, DEMO)
    assert listing(s3.url, s3.variables()).returncode == cairn_cli.GOOD
    done = listing(s3.url, s3.variables(), "--anonymous")
    assert done.returncode == cairn_cli.IO and b"AccessDenied" in done.stderr, done.stderr


def test_a_profile_beats_keys_of_the_environment(demo, local, tmp_path):
    (tmp_path / ".aws").mkdir()
    lines = [
        f"aws_access_key_id = {demo.reader.access}",
        f"aws_secret_access_key = {demo.reader.secret}",
    ]
    (tmp_path / ".aws/credentials").write_text("\n".join(["[dev]", *lines, ""]))
    config = ["[profile dev]", f"region = {demo.region}", f"endpoint_url = {demo.endpoint}", ""]
    (tmp_path / ".aws/config").write_text("\n".join(config))
    kept = without(demo, "AWS_ENDPOINT_URL", "AWS_REGION")
    wrong = {"AWS_ACCESS_KEY_ID": WRONG.access, "AWS_SECRET_ACCESS_KEY": WRONG.secret}
    environment = kept | wrong | {"HOME": str(tmp_path)}
    done = listing(demo.url, environment, "--profile", "dev")
    assert (done.returncode, done.stdout) == (cairn_cli.GOOD, local), done.stderr


def test_tls_needs_a_certificate_that_is_trusted(demo, tls, local):
    endpoint, ca_file = tls
    reach = ["--endpoint", endpoint]
    done = listing(demo.url, demo.variables(), *reach)
    assert done.returncode == cairn_cli.IO and b"certificate" in done.stderr
    trusted = listing(demo.url, demo.variables(), *reach, "--ca-file", ca_file)
    assert (trusted.returncode, trusted.stdout) == (cairn_cli.GOOD, local), trusted.stderr
    unverified = listing(demo.url, demo.variables(), *reach, "--no-verify-tls")
    assert (unverified.returncode, unverified.stdout) == (cairn_cli.GOOD, local)


def test_a_missing_file_of_certificates_is_an_error(demo, tls, tmp_path):
    options = ["--endpoint", tls[0], "--ca-file", tmp_path / "missing.pem"]
    done = listing(demo.url, demo.variables(), *options)
    assert done.returncode == cairn_cli.IO and b"missing.pem" in done.stderr, done.stderr


def test_the_numbers_of_steps(seaweedfs):
    store_clients.upload(seaweedfs, STEPS)
    environment = seaweedfs.variables() | {"AWS_ENDPOINT_URL": NOBODY}
    done = cairn_cli.call(
        "info", "--steps", seaweedfs.url, "--endpoint", seaweedfs.endpoint, env=environment
    )
    assert done.returncode == cairn_cli.GOOD, done.stderr
    assert done.stdout == cairn_cli.run("info", "--steps", STEPS).stdout


def test_both_sides_of_a_diff(demo):
    environment = demo.variables() | {"AWS_ENDPOINT_URL": NOBODY}
    reach = ["--endpoint", demo.endpoint]
    for places in ([demo.url, demo.url], [demo.url, DEMO], [DEMO, demo.url]):
        done = cairn_cli.call("diff", *places, *reach, env=environment)
        assert done.returncode == cairn_cli.GOOD, done.stderr


@pytest.mark.parametrize("target", ["out.npz", "out.safetensors", "out"])
def test_conversions_to_local_files(demo, tmp_path, target):
    place = tmp_path / target
    to = [] if "." in target else ["--to", "orbax"]
    options = ["--skip-unsupported", *to]
    done = cairn_cli.call("convert", demo.url, place, *options, env=demo.variables())
    assert done.returncode == cairn_cli.GOOD, done.stderr
    assert cairn_cli.call("verify", place).returncode == cairn_cli.GOOD
    cairn_cli.run("convert", DEMO, tmp_path / f"local-{target}", *options)
    same = cairn_cli.call("diff", tmp_path / f"local-{target}", place)
    assert same.returncode == cairn_cli.GOOD, same.stdout


def test_a_reshard_to_a_local_folder(demo, tmp_path):
    place = tmp_path / "out"
    options = ["--chunk-bytes", "1KiB", "--endpoint", demo.endpoint]
    done = cairn_cli.call("reshard", demo.url, place, *options, env=demo.variables())
    assert done.returncode == cairn_cli.GOOD, done.stderr
    assert cairn_cli.call("diff", DEMO, place).returncode == cairn_cli.GOOD


def test_a_dump(demo):
    environment = demo.variables() | {"AWS_ENDPOINT_URL": NOBODY}
    name = "100/default/ocdbt.process_0/manifest.ocdbt"
    reach = ["--endpoint", demo.endpoint]
    done = cairn_cli.call("dump", f"{demo.url}/{name}", *reach, env=environment)
    assert done.returncode == cairn_cli.GOOD, done.stderr
    assert json.loads(done.stdout) == json.loads(cairn_cli.run("dump", DEMO / name).stdout)

"""TLS: only servers whose certificate the user trusts."""

import json
import subprocess

import cairn_cli


def contract_tool(seaweedfs, *command):
    tool = cairn_cli.TOOLS / "kv_contract_tool"
    environment = seaweedfs.variables()
    return subprocess.run(
        [tool, *command], input=b"sent", capture_output=True, env=environment, timeout=60
    )


def test_a_trusted_certificate(seaweedfs, tls):
    endpoint, ca_file = tls
    options = [f"endpoint={endpoint}", f"ca_file={ca_file}", "only=appended"]
    done = contract_tool(seaweedfs, "checks", seaweedfs.url, *options)
    assert done.returncode == 0 and b"appended" in done.stdout, done.stdout.decode()


def test_the_system_s_certificates_do_not_vouch_for_it(seaweedfs, tls):
    options = [f"endpoint={tls[0]}", "retry_ms=30000"]
    done = contract_tool(seaweedfs, "verbs", seaweedfs.url, *options)
    answers = json.loads(done.stdout)
    assert answers and all(not each["ok"] and each["code"] == "io" for each in answers.values())
    assert all("certificate" in each["message"] for each in answers.values()), answers


def test_another_host_of_the_same_certificate(seaweedfs, tls):
    endpoint = tls[0].replace("localhost", "other.localhost")  # libcurl knows where that is
    options = [f"endpoint={endpoint}", f"ca_file={tls[1]}", "retry_ms=30000"]
    done = contract_tool(seaweedfs, "verbs", seaweedfs.url, *options)
    answers = json.loads(done.stdout)
    assert all("certificate" in each["message"] for each in answers.values()), answers


def test_verification_can_be_turned_off(seaweedfs, tls):
    options = [f"endpoint={tls[0]}", "verify_tls=0"]
    contract_tool(seaweedfs, "put", seaweedfs.url, "a", *options)
    assert contract_tool(seaweedfs, "get", seaweedfs.url, "a", *options).stdout == b"sent"
    assert seaweedfs.get("a") == b"sent"

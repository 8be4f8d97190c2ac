"""Fixtures: the real object stores that scripts/store-servers.sh starts, and the fault proxy."""

import contextlib
import hashlib
import uuid

import fault_proxy
import pytest
import store_clients


@pytest.fixture(scope="session", autouse=True)
def servers():
    """The servers stay until the last worker has no more tests."""
    yield
    store_clients.stop()


def fresh_prefix(request):
    """One that no other test, worker or run uses, and that tells the test in a server's log."""
    test = request.node.originalname.removeprefix("test_")[:30]
    node = hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:8]
    return f"{test}-{node}-{uuid.uuid4().hex[:8]}"


@pytest.fixture(params=store_clients.S3_SERVERS, ids=str.lower)
def s3(request):
    """Each S3 server in turn, with a prefix of its own."""
    return store_clients.s3(store_clients.running(request.param), fresh_prefix(request))


@pytest.fixture(params=store_clients.SERVERS, ids=str.lower)
def store(request):
    """Each server in turn, S3 or Google Cloud Storage."""
    return store_clients.store(store_clients.running(request.param), fresh_prefix(request))


@pytest.fixture(params=["SEAWEEDFS", "GCS"], ids=str.lower)
def replacing_store(request):
    """Servers on which TensorStore can replace a value: radosgw 16 refuses its If-Match."""
    return store_clients.store(store_clients.running(request.param), fresh_prefix(request))


@pytest.fixture
def seaweedfs(request):
    """SeaweedFS alone, for tests that do not depend on the server."""
    return store_clients.s3(store_clients.running("SEAWEEDFS"), fresh_prefix(request))


@pytest.fixture
def tls(seaweedfs):
    """SeaweedFS's endpoint with TLS, and the file of the certificate that vouches for it."""
    found = store_clients.environment()
    if "SEAWEEDFS_TLS_ENDPOINT" not in found:
        pytest.skip("this system has no openssl to make a certificate")
    return found["SEAWEEDFS_TLS_ENDPOINT"], found["SEAWEEDFS_CA_FILE"]


@pytest.fixture
def gcs(request):
    """Google Cloud Storage's emulator, with preconditions."""
    store_clients.running("GCS")
    return store_clients.gcs(fresh_prefix(request))


@pytest.fixture
def proxy():
    """Makes fault proxies: proxy(store, faults, delay=...) is one before this store."""
    with contextlib.ExitStack() as stack:

        def make(store, faults=(), **options):
            made = fault_proxy.FaultProxy(store.port, faults, **options)
            return stack.enter_context(made)

        yield make

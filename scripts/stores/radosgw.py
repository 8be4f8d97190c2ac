"""Ceph's S3 server over one monitor and one store in memory, from extracted Debian packages."""

import asyncio
import http.client
import pathlib
import uuid

import s3_ready
from processes import HOST, Missing, Processes, free_port

ROOT = pathlib.Path(__file__).resolve().parents[2]
CEPH = ROOT / "build/stores/ceph"
PYTHON = "/usr/bin/python3"  # the one that Debian's modules are for

CONFIGURATION = """[global]
fsid = {fsid}
mon_initial_members = a
mon_host = v2:{host}:{mon_v2}/0,v1:{host}:{mon_v1}/0
public_addr = {host}
cluster_addr = {host}
ms_bind_port_min = {first}
ms_bind_port_max = {last}
auth_cluster_required = cephx
auth_service_required = cephx
auth_client_required = cephx
keyring = {folder}/keyring
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 1
osd_pool_default_pgp_num = 1
osd_pool_default_pg_autoscale_mode = off
mon_allow_pool_size_one = true
mon_max_pg_per_osd = 1000
osd_crush_chooseleaf_type = 0
osd_objectstore = memstore
memstore_device_bytes = 2147483648
osd_class_dir = {libraries}/rados-classes
osd_class_load_list = *
osd_class_default_list = *
plugin_dir = {libraries}/ceph
erasure_code_dir = {libraries}/ceph/erasure-code
run_dir = {folder}
admin_socket =
log_file = {folder}/$name.out
crash_dir = {folder}/crash
mon_cluster_log_file = {folder}/cluster.out
mon_data_avail_crit = 1
mon_data_avail_warn = 2
[mon.a]
mon_data = {folder}/mon
[osd.0]
osd_data = {folder}/osd
[client.rgw.a]
# Without tcp_nodelay each small answer takes 44 ms.
rgw_frontends = beast endpoint={host}:{port} tcp_nodelay=1
rgw_dns_name = s3.localhost
rgw_thread_pool_size = 64
rgw_enable_usage_log = false
"""


def libraries():
    found = list((CEPH / "root/usr/lib").glob("*/librados.so.2"))
    if not found:
        raise Missing(f"no librados.so.2 below {CEPH}")
    return found[0].parent


async def fetch(processes):
    try:
        await processes.output(ROOT / "scripts/fetch-radosgw.sh", CEPH, seconds=400)
    except Missing as error:  # the script's own line says more
        raise Missing(str(error).split("radosgw: ", 1)[-1]) from None
    usr, lib = CEPH / "root/usr", libraries()
    processes.environment |= {
        "LD_LIBRARY_PATH": f"{lib}:{lib}/ceph:{CEPH}/root/lib/{lib.name}",
        "PYTHONPATH": f"{usr}/lib/python3/dist-packages",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PATH": f"{usr}/bin:{processes.environment['PATH']}",
    }
    return usr / "bin"


def write_configuration(folder, port, monitor_ports):
    (folder / "mon").mkdir()
    (folder / "osd").mkdir()
    fsid, first = uuid.uuid4(), free_port()
    (folder / "ceph.conf").write_text(
        CONFIGURATION.format(
            fsid=fsid,
            host=HOST,
            mon_v2=monitor_ports[0],
            mon_v1=monitor_ports[1],
            first=first,
            last=first + 50,
            folder=folder,
            libraries=libraries(),
            port=port,
        )
    )
    return fsid


async def make_keys(processes, tools):
    keyring = processes.folder / "keyring"
    make = [tools / "ceph-authtool", keyring, "--gen-key", "--cap", "mon", "allow *", "-n"]
    await processes.output(*make, "mon.", "--create-keyring")
    for name in ("client.admin", "client.rgw.a", "osd.0"):
        await processes.output(*make, name, "--cap", "osd", "allow *")
    return keyring


async def start_monitor(processes, tools, fsid, ports):
    common = ["-i", "a", "--keyring", await make_keys(processes, tools), "--conf", "ceph.conf"]
    await processes.output(
        tools / "monmaptool",
        "--create",
        "--fsid",
        fsid,
        "--addv",
        "a",
        f"[v2:{HOST}:{ports[0]},v1:{HOST}:{ports[1]}]",
        "monmap",
    )
    await processes.output(tools / "ceph-mon", "--mkfs", "--monmap", "monmap", *common)
    await processes.start("ceph-mon", tools / "ceph-mon", "-f", *common)


async def start_storage(processes, tools):
    """Waits for the monitor, which must know the storage before that starts."""
    number = uuid.uuid4()
    ceph = [PYTHON, tools / "ceph", "-c", "ceph.conf", "--connect-timeout", 30]
    await processes.output(*ceph, "osd", "new", number)
    common = ["-i", 0, "--keyring", "keyring", "--conf", "ceph.conf"]
    await processes.output(tools / "ceph-osd", "--mkfs", "--osd-uuid", number, *common)
    await processes.start("ceph-osd", tools / "ceph-osd", "-f", *common)


async def start_gateway(processes, tools, port):
    await processes.start(
        "radosgw", tools / "radosgw", "-f", "-n", "client.rgw.a", "--conf", "ceph.conf"
    )
    await processes.until(lambda: asyncio.to_thread(answers, port), "answer", 90)


def answers(port):
    try:
        connection = http.client.HTTPConnection(HOST, port, timeout=2)
        connection.request("GET", "/")
        return connection.getresponse().status > 0
    except (OSError, http.client.HTTPException):
        return False


async def make_user(processes, tools, keys):
    await processes.output(
        tools / "radosgw-admin",
        "-n",
        "client.rgw.a",
        "--conf",
        "ceph.conf",
        "user",
        "create",
        "--uid",
        keys[0],
        "--display-name",
        keys[0],
        "--access-key",
        keys[0],
        "--secret-key",
        keys[1],
    )


async def start(processes: Processes):
    tools = await fetch(processes)
    port, monitor_ports = free_port(), [free_port(), free_port()]
    fsid = write_configuration(processes.folder, port, monitor_ports)
    await start_monitor(processes, tools, fsid, monitor_ports)
    await start_storage(processes, tools)
    await start_gateway(processes, tools, port)
    for keys in (s3_ready.ADMIN, s3_ready.READER):
        await make_user(processes, tools, keys)
    endpoint = f"http://{HOST}:{port}"
    s3 = await s3_ready.store_first(processes, endpoint)
    policy = s3_ready.policy_for_reader()
    await asyncio.to_thread(s3.put_bucket_policy, Bucket=s3_ready.BUCKET, Policy=policy)
    return {"ENDPOINT": endpoint}

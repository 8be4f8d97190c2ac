"""hf:// on a Hub on loopback: Cairn and huggingface_hub see the same files and refusals."""

import io
import json
import os

import cairn_cli
import hub_stub
import numpy as np
import pytest
import safetensors.numpy
from huggingface_hub import HfApi, HfFileSystem, hf_hub_download, snapshot_download
from huggingface_hub.errors import (
    GatedRepoError,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

import cairn as cairn_py

NAME = "owner/model"
READER, OUTSIDER = "hf_reader_secret", "hf_outsider_secret"


def tensors(seed, rows=200):
    values = np.random.default_rng(seed)
    return {f"layer.{seed}.{n}": values.random((rows, 300), np.float32) for n in "ab"}


def npz_bytes(arrays):
    out = io.BytesIO()
    np.savez_compressed(out, **arrays)
    return out.getvalue()


def model_files(seed=0):
    """A set of shards, a single file, an archive and a text."""
    files = {"README.md": b"# A model\n", "config/settings.json": b"{}"}
    weights = {}
    for shard in (1, 2):
        held = tensors(10 * seed + shard)
        name = f"model-0000{shard}-of-00002.safetensors"
        files[name] = safetensors.numpy.save(held)
        weights |= dict.fromkeys(held, name)
    index = {"metadata": {"total_size": 960_000}, "weight_map": weights}
    files["model.safetensors.index.json"] = json.dumps(index).encode()
    files["extra/single.safetensors"] = safetensors.numpy.save(tensors(10 * seed + 3))
    files["extra/arrays.npz"] = npz_bytes(tensors(10 * seed + 4))
    for n in range(2 * hub_stub.PAGE):  # more than a page
        files[f"notes/note{n:02}.txt"] = f"note {n}\n".encode()
    return files


@pytest.fixture
def hub(monkeypatch, tmp_path):
    for name in ("HF_TOKEN", "HF_TOKEN_PATH", "HF_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    with hub_stub.HubStub() as made:
        made.add(NAME, model_files())
        made.tokens = {READER: {"owner/private", "owner/gated"}, OUTSIDER: set()}
        yield made


def cairn(hub, *args, token=None):
    environment = {**os.environ, "HF_ENDPOINT": hub.endpoint}
    if token:
        environment["HF_TOKEN"] = token
    return cairn_cli.call(*args, env=environment)


def good(hub, *args, **options):
    done = cairn(hub, *args, **options)
    assert done.returncode == cairn_cli.GOOD, done.stderr.decode()
    return done.stdout


def api(hub, token=False):
    return {"endpoint": hub.endpoint, "token": token}


def test_both_clients_read_the_same_bytes(hub, tmp_path):
    folder = snapshot_download(NAME, local_dir=tmp_path / "copy", **api(hub))
    single = hf_hub_download(NAME, "extra/single.safetensors", local_dir=tmp_path, **api(hub))
    files = hub.repositories["models", NAME].commits
    (content,) = files.values()
    for path, body in content.items():
        assert (tmp_path / "copy" / path).read_bytes() == body
    system = HfFileSystem(**api(hub), skip_instance_cache=True)
    assert system.cat(f"{NAME}/extra/arrays.npz") == content["extra/arrays.npz"]
    names = {name.removeprefix(NAME + "/") for name in system.find(NAME)}
    assert names == set(content)
    pairs = [("", folder), ("/extra/single.safetensors", single)]
    pairs.append(("/extra/arrays.npz", f"{folder}/extra/arrays.npz"))
    for path, local in pairs:
        url = f"hf://{NAME}{path}"
        listed = json.loads(good(hub, "ls", "--json", url))
        assert listed == cairn_cli.ls(local)
        for leaf in listed:
            assert good(hub, "cat", "--raw", url, leaf["name"]) == cairn_cli.cat(
                local, leaf["name"]
            )
        assert good(hub, "verify", url)


def test_looking_into_a_model_downloads_the_headers_alone(hub):
    body = safetensors.numpy.save({"w": np.zeros((3000, 1000), np.float32), "b": np.zeros(4)})
    hub.add("owner/large", {"model.safetensors": body})
    good(hub, "ls", "hf://owner/large")
    assert hub.sent < 300_000 < len(body)
    assert len(hub.seen) <= 6, hub.seen


def test_the_token_stays_with_the_hub(hub):
    for name, option in (("owner/private", "is_private"), ("owner/gated", "is_gated")):
        hub.add(name, model_files(), **{option: True})
        hub.forget()
        assert good(hub, "verify", f"hf://{name}", token=READER)
        assert hub.of_host("cdn")
        assert not any(seen.authorization for seen in hub.of_host("cdn"))
        assert all(seen.authorization == f"Bearer {READER}" for seen in hub.of_host("hub"))
    assert not any("secret" in seen.target for seen in hub.seen)


def test_revisions(hub):
    """A branch with slashes, a tag, and a commit; also in a dataset."""
    for kind, place in (("models", ""), ("datasets", "datasets/")):
        repository = hub.repositories.get((kind, NAME)) or hub.add(NAME, model_files(), kind=kind)
        files = model_files(5)
        commit = repository.add("refs/pr/1", files)
        for name in ("refs%2Fpr%2F1", commit):
            url = f"hf://{place}{NAME}@{name}/extra/single.safetensors"
            leaf = next(iter(tensors(53)))
            assert good(hub, "cat", "--raw", url, leaf) == tensors(53)[leaf].tobytes()
        kept = hf_hub_download(NAME, "extra/single.safetensors", revision="refs/pr/1",
                               repo_type=kind[:-1], **api(hub))  # fmt: skip
        with open(kept, "rb") as file:
            assert file.read() == files["extra/single.safetensors"]


def test_all_of_an_open_is_of_one_commit(hub):
    """The branch is looked up once; all else names the commit, also after the branch has moved."""
    leaf, values = next(iter(tensors(1).items()))
    assert good(hub, "cat", "--raw", f"hf://{NAME}", leaf) == values.tobytes()
    (commit,) = hub.repositories["models", NAME].commits
    targets = [seen.target for seen in hub.of_host("hub")]
    assert sum("/revision/main" in target for target in targets) == 1
    assert all(commit in target for target in targets if "/revision/" not in target)
    options = {"storage_options": {"endpoint": hub.endpoint, "anonymous": True}}
    opened = cairn_py.open(f"hf://{NAME}", **options)
    hub.repositories["models", NAME].add("main", model_files(5))
    assert np.array_equal(opened[leaf][...], values)
    del opened  # what is open at the same time is of the same commit
    assert leaf not in cairn_py.load(f"hf://{NAME}", **options)


def test_expired_addresses_are_asked_for_again(hub):
    options = {"storage_options": {"endpoint": hub.endpoint, "anonymous": True}}
    opened = cairn_py.open(f"hf://{NAME}/extra/single.safetensors", **options)
    hub.signature += 1
    tree = opened.load()
    assert all(np.array_equal(tree[key], value) for key, value in tensors(3).items())


REFUSALS = [  # repository@revision/path, token, what the message names, huggingface_hub's error
    ("owner/none", None, ["owner/none", "HF_TOKEN"], RepositoryNotFoundError),
    ("owner/none", READER, ["owner/none", "does not exist"], RepositoryNotFoundError),
    ("owner/private", None, ["owner/private", "HF_TOKEN"], RepositoryNotFoundError),
    ("owner/private", OUTSIDER, ["owner/private", "may not read"], RepositoryNotFoundError),
    ("owner/gated", None, ["owner/gated", "gated", "HF_TOKEN"], GatedRepoError),
    ("owner/gated", OUTSIDER, ["owner/gated", "gated", "conditions"], GatedRepoError),
    ("owner/model@nope", None, ["owner/model", "'nope'", "branch"], RevisionNotFoundError),
    ("owner/model@main/none.npz", None, ["none.npz"], RemoteEntryNotFoundError),
    ("owner/model", "hf_wrong_secret", ["the token", "HF_TOKEN"], None),
]


@pytest.mark.parametrize(("place", "token", "named", "error"), REFUSALS)
def test_refusals_say_what_to_do(hub, place, token, named, error):
    hub.add("owner/private", model_files(), is_private=True)
    hub.add("owner/gated", model_files(), is_gated=True)
    done = cairn(hub, "ls", f"hf://{place}", token=token)
    assert done.returncode == cairn_cli.IO
    message = done.stderr.decode()
    assert all(part in message for part in named), message
    assert "secret" not in message
    if error is None:
        return
    repository, _, rest = place.partition("@")
    revision, _, path = rest.partition("/")
    with pytest.raises(error):
        hf_hub_download(repository, path or "model.safetensors.index.json",
                        revision=revision or None, **api(hub, token or False))  # fmt: skip


def test_the_endpoint_of_the_environment(hub):
    assert (
        HfApi(endpoint=hub.endpoint).repo_info(NAME, token=False).sha
        in hub.repositories["models", NAME].commits
    )
    hub.forget()
    good(hub, "ls", f"hf://{NAME}")
    assert hub.seen

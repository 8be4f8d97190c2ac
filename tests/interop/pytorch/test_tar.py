"""The tar form of torch.save, before PyTorch 0.1.10: what torch 2.13 reads of it, bit for bit; and what is refused."""

import collections
import json
import os
import pickle
import random
import tarfile
import warnings

import pytest
import torch
from tar_files import STORAGES, TarWriter, View, save, write_tar
from test_torch_files import assert_equal, random_tensor, random_view

import cairn
import cairn_cli

SEED = int(os.environ["CAIRN_SEED"])
FORMS = {"pax": tarfile.PAX_FORMAT, "ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT}


def random_state(rng, depth=0):
    kind = rng.randrange(8) if depth else 0
    if kind == 0 and depth < 3:
        keys = rng.sample(["a", "b.c", "layer.0.weight", "x/y", "ä", "0"], rng.randrange(1, 5))
        return rng.choice([dict, collections.OrderedDict])((key, random_state(rng, depth + 1)) for key in keys)
    if kind == 1 and depth < 3:
        return rng.choice([list, tuple])(random_state(rng, depth + 1) for _ in range(rng.randrange(4)))
    if kind < 6:
        base = random_tensor(rng, rng.choice(list(STORAGES)))
        view = random_view(rng, base).detach().resolve_conj()
        if base.numel() > 1 and rng.random() < 0.3:
            first = rng.randrange(base.numel())
            return [View(base, first, rng.randrange(base.numel() - first + 1)), base]
        return [base, view, base]
    return rng.choice([None, True, 0, -5, 2**40, 1.5, "text", {}, [], ()])


def loaded_by_torch(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.load(path, weights_only=False)


@pytest.mark.parametrize("protocol", [0, 2, 4])
@pytest.mark.parametrize("form", FORMS)
def test_random_states(scratch, form, protocol):
    rng = random.Random(f"{SEED} {form} {protocol}")
    path = scratch / "x.pt"
    for _ in range(40):
        save(path, random_state(rng), protocol, FORMS[form])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert_equal(loaded_by_torch(path), cairn.load(path, framework="torch"))
        report = cairn.verify(path)
        assert report and not report.damaged
        cairn_cli.run("ls", path)
    assert dict(cairn.open(path).info)["layout"] == "PyTorch file of the tar form"


def test_the_keys_may_be_of_64_bits(scratch):
    """Addresses above 2^63 are longer integers in a pickle."""
    state = {"w": torch.arange(3.0)}
    for first_key in (1, 2**63 - 48, 2**63, 2**64 - 500):
        write_tar(scratch / "x.pt", TarWriter(first_key=first_key).members(state).items())
        assert_equal(loaded_by_torch(scratch / "x.pt"), cairn.load(scratch / "x.pt", framework="torch"))


def test_a_tensor_in_two_places_is_tied(scratch):
    base = torch.arange(6.0)
    save(scratch / "x.pt", {"a": base, "b": base, "part": View(base, 2, 3)})
    facts = dict(cairn.open(scratch / "x.pt").info)["facts"]
    assert facts["tied"] == "b = a" and facts["storages"] == "1"
    assert cairn.load(scratch / "x.pt")["part"].tolist() == [2, 3, 4]


def test_the_order_of_the_members_does_not_matter(scratch):
    members = list(TarWriter().members({"w": torch.arange(3.0)}).items())
    for _ in range(4):
        members = members[1:] + members[:1]
        write_tar(scratch / "x.bin", members)
        assert cairn.load(scratch / "x.bin")["w"].tolist() == [0, 1, 2]


def test_a_class_that_would_be_imported(scratch):
    """Also if another pickle than that of the object names it."""
    writer = TarWriter()
    members = writer.members({"w": torch.ones(1)})
    views = writer.dump([])
    assert members["storages"].endswith(views)
    members["storages"] = members["storages"].removesuffix(views) + b"\x80\x02cos\nsystem\n0]."
    write_tar(scratch / "x.pt", members.items())
    assert cairn.load(scratch / "x.pt")["w"].tolist() == [1]
    found = cairn_cli.run("verify", scratch / "x.pt").stdout.decode()
    assert "unpickling this file may run any code: it imports os.system" in found


def test_what_pytorch_does_not_look_at_is_noted(scratch):
    members = TarWriter().members({"w": torch.ones(1)})
    write_tar(scratch / "x.pt", [*members.items(), ("notes.txt", b"mine")])
    with pytest.warns(UserWarning, match='its member "notes.txt" is not read'):
        cairn.load(scratch / "x.pt")
    write_tar(scratch / "x.pt", [(name, content + b"more" * (name == "tensors")) for name, content in members.items()])
    with pytest.warns(UserWarning, match="4 bytes follow the values of the member tensors"):
        cairn.load(scratch / "x.pt")
    write_tar(scratch / "x.pt", members.items())
    with open(scratch / "x.pt", "ab") as file:
        file.write(bytes(20000) + b"more")
    loaded_by_torch(scratch / "x.pt")
    with pytest.warns(UserWarning, match="bytes follow the end of the archive"):
        cairn.load(scratch / "x.pt")


def test_dump_shows_every_pickle(scratch):
    save(scratch / "x.pt", {"w": torch.ones(2), "v": torch.ones(3)})
    shown = json.loads(cairn_cli.run("dump", scratch / "x.pt").stdout)["pickles"]
    assert [one["member"] for one in shown] == ["sys_info", "pickle", *["tensors"] * 3, *["storages"] * 4]
    assert shown[1]["value"]["w"]["$persistent"] == str(shown[3]["value"]["$tuple"][0])
    assert shown[2]["value"] == 2 and shown[-1]["value"] == []


def refused(path, status=cairn_cli.IO):
    return cairn_cli.run("ls", path, status=status).stderr.decode()


def test_members_that_no_file_of_pytorch_has(scratch):
    members = TarWriter().members({"w": torch.ones(1)})
    types = {tarfile.SYMTYPE: "a symbolic link", tarfile.LNKTYPE: "a hard link", tarfile.DIRTYPE: "a folder"}
    for kind, text in types.items():
        write_tar(scratch / "x.pt", list(members.items())[:3])
        with tarfile.open(scratch / "x.pt", "a:") as archive:
            info = tarfile.TarInfo("storages")
            info.type, info.linkname = kind, "../secret"
            archive.addfile(info)
        assert f"is {text}, in a tar archive" in refused(scratch / "x.pt")
    write_tar(scratch / "x.pt", [*members.items(), ("pickle", pickle.dumps({"w": 1}, 2))])
    assert "the archive has two members of this name" in refused(scratch / "x.pt")
    for name in ("pickle", "tensors", "storages"):
        write_tar(scratch / "x.pt", [one for one in members.items() if one[0] != name])
        assert f"without an object of PyTorch (a member {name})" in refused(scratch / "x.pt")
    write_tar(scratch / "x.pt", [("a/weights.bin", b"x")])
    assert "is a tar archive; unpack it, and open what was in it" in refused(scratch / "x.pt")


def test_every_cut_is_noticed(scratch):
    save(scratch / "x.pt", {"w": torch.arange(3.0), "v": torch.ones(2).half()})
    good = (scratch / "x.pt").read_bytes()
    with tarfile.open(scratch / "x.pt") as archive:
        end = max(member.offset_data + (member.size + 511) // 512 * 512 for member in archive)
    for size in [*range(0, end, 97), end, end + 511]:
        (scratch / "cut.pt").write_bytes(good[:size])
        with pytest.raises((OSError, NotImplementedError, ValueError)):
            cairn.load(scratch / "cut.pt")
    (scratch / "cut.pt").write_bytes(good[: end + 512])
    assert cairn.load(scratch / "cut.pt")["w"].tolist() == [0, 1, 2]


def test_any_flip_of_a_bit_is_an_error_or_a_value(scratch):
    """There are no checksums of the contents; nothing crashes or takes memory without bound."""
    save(scratch / "x.pt", {"w": torch.arange(3.0), "part": View(torch.ones(4), 1, 2)})
    good = (scratch / "x.pt").read_bytes()
    rng = random.Random(f"{SEED} flips")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(1500):
            bad = bytearray(good)
            bad[rng.randrange(len(bad))] ^= 1 << rng.randrange(8)
            (scratch / "bad.pt").write_bytes(bad)
            try:
                cairn.load(scratch / "bad.pt")
            except (OSError, NotImplementedError, ValueError):
                pass

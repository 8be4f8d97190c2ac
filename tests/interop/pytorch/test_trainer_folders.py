"""Folders as Trainer, Accelerate and Lightning leave them: they open at the model; the rest are items."""

import json

import pytest
import safetensors.torch
import torch
from test_torch_files import assert_equal, sorted_keys

import cairn
import cairn_cli


def trained():
    """A model and its optimizer after a step."""
    torch.manual_seed(5)
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(4, 3)).sum().backward()
    optimizer.step()
    return model, optimizer


TRAINER = ["optimizer.pt", "rng_state.pth", "scheduler.pt", "training_args.bin"]
ACCELERATE = ["optimizer.bin", "random_states_0.pkl", "scheduler.bin"]


class Arguments:
    def __init__(self):
        self.learning_rate = 0.1


def write_folder(folder, model_file, names):
    model, optimizer = trained()
    state = model.state_dict()
    if model_file.endswith("safetensors"):
        safetensors.torch.save_file(state, folder / model_file)
    else:
        torch.save(state, folder / model_file)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    contents = {"optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict(),
                "rng_state": {"cpu": torch.get_rng_state()}, "random_states_0": {"torch_manual_seed": torch.get_rng_state()},
                "training_args": Arguments()}
    for name in names:
        torch.save(contents[name.rpartition(".")[0]], folder / name)
    (folder / "trainer_state.json").write_text("{}")
    return state, {name: contents[name.rpartition(".")[0]] for name in names}


@pytest.mark.parametrize("model_file", ["model.safetensors", "pytorch_model.bin"])
@pytest.mark.parametrize("names", [TRAINER, ACCELERATE], ids=["trainer", "accelerate"])
def test_a_folder(scratch, model_file, names):
    state, contents = write_folder(scratch, model_file, names)
    assert_equal(sorted_keys(dict(state)), sorted_keys(cairn.load(scratch, framework="torch")))
    items = sorted([model_file, *names])
    assert cairn.open(scratch).info["items"] == items
    assert cairn_cli.run("info", "--items", scratch).stdout.decode().split() == items
    assert f"items {', '.join(items)}" in " ".join(cairn_cli.run("info", scratch).stdout.decode().split())
    for name, want in contents.items():
        if name == "training_args.bin":
            want = {"learning_rate": 0.1}
        assert_equal(want, cairn.load(scratch, item=name, framework="torch"))
        assert cairn_cli.ls(scratch, item=name) == cairn_cli.ls(scratch / name)
        assert cairn.verify(scratch, item=name)
    optimizer = next(name for name in names if name.startswith("optimizer"))
    _, fresh = trained()
    fresh.load_state_dict(cairn.load(scratch, item=optimizer, framework="torch"))


def test_conversions(scratch):
    """Of the model, which names what it leaves out, and of one item."""
    folder, out = scratch / "checkpoint-500", scratch / "optimizer"
    folder.mkdir()
    write_folder(folder, "model.safetensors", TRAINER)
    done = cairn_cli.run("convert", folder, scratch / "model.npz", "--json")
    left = [one["item"] for one in json.loads(done.stdout)["left_out"]]
    assert left == TRAINER and b"left out 'optimizer.pt': is not a part of the model" in done.stderr
    cairn_cli.run("convert", folder, out, "--to", "orbax", "--item", "optimizer.pt")
    assert cairn.load(out)["state"].keys() == cairn.load(folder / "optimizer.pt")["state"].keys()
    refused = cairn_cli.run("ls", "--item", "optimizer", folder, status=cairn_cli.IO).stderr.decode()
    assert "there is no item \"optimizer\"; its items are model.safetensors, optimizer.pt" in refused


def test_verify_says_what_it_does_not_read(scratch):
    write_folder(scratch, "model.safetensors", TRAINER)
    shown = cairn_cli.run("verify", scratch).stdout.decode()
    assert f"items beside the model are verified only if --item names them: {', '.join(TRAINER)}" in shown


def test_a_folder_of_lightning(scratch):
    model, optimizer = trained()
    for epoch in (1, 2):
        torch.save({"epoch": epoch, "global_step": 10 * epoch, "pytorch-lightning_version": "2.6.0",
                    "state_dict": model.state_dict(), "optimizer_states": [optimizer.state_dict()]},
                   scratch / f"epoch={epoch}-step={10 * epoch}.ckpt")
        if epoch == 1:
            assert cairn.load(scratch)["epoch"] == 1
    names = ["epoch=1-step=10.ckpt", "epoch=2-step=20.ckpt"]
    refused = cairn_cli.run("ls", scratch, status=cairn_cli.IO).stderr.decode()
    assert f"has 2 checkpoints, and none is last.ckpt: {', '.join(names)}; choose one with --item" in refused
    for name in names:
        assert_equal(torch.load(scratch / name), cairn.load(scratch, item=name, framework="torch"))
    (scratch / "last.ckpt").symlink_to(names[1])
    opened = cairn.open(scratch)
    assert opened.info["items"] == [*names, "last.ckpt"] and opened["epoch"].item() == 2
    cairn_cli.run("convert", scratch, scratch / "model.safetensors", "--include", "state_dict.**")
    assert set(safetensors.torch.load_file(scratch / "model.safetensors")) == {"state_dict.weight", "state_dict.bias"}

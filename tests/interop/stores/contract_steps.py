"""Runs steps on a store and on the store in memory, and compares the answers (store_tool.cc)."""

import cairn_cli


def run(url, steps, environment=None):
    jobs = [{"url": url, "steps": steps}]
    answers = cairn_cli.answers("store_tool", jobs, env=environment)[0]
    assert isinstance(answers, list), answers
    return answers


def plain(answers):
    """Of errors the code alone: their words name the store."""
    return [each["code"] if isinstance(each, dict) and "code" in each else each for each in answers]


def without_empty_folders(answer, reference):
    """SeaweedFS lists a folder for two minutes after its last key was removed."""
    if not isinstance(answer, dict) or "folders" not in answer:
        return answer
    kept = [folder for folder in answer["folders"] if folder in reference["folders"]]
    return {**answer, "folders": kept}


def check(store, steps):
    found = run(store.url, steps, store.variables())
    wanted = run("memory://", steps)
    for step, ours, reference in zip(steps, found, wanted, strict=True):
        if store.name == "SEAWEEDFS":
            ours = without_empty_folders(ours, reference)
        assert plain([ours]) == plain([reference]), f"{step}: {ours}, in memory {reference}"


KEYS = ["a", "b/1", "b/2", "b/22", "c", "d/e/f", "z z", "é+%41"]


def random_step(rng):
    key, value = str(rng.choice(KEYS)), "x" * int(rng.choice([0, 1, 100, 5000]))
    expected = [None, "", "x", "x" * 100][int(rng.integers(4))]
    prefix = str(rng.choice(["", "b", "b/", "b/2", "d/e", "x"]))
    steps = [
        {"write": [key, value]},
        {"write": [key, value]},
        {"remove": key},
        {"replace": [key, expected, value]},
        {"append": [key, int(rng.choice([0, 1, 100])), 30]},
        {"remove_all": [str(each) for each in rng.choice(KEYS, 2, replace=False)]},
        {"read": key},
        {"range": [key, int(rng.integers(3)), int(rng.integers(3))]},
        {"size": key},
        {"list": prefix},
        {"level": prefix},
        {"values": [prefix, 100]},
    ]
    return steps[int(rng.integers(len(steps)))]

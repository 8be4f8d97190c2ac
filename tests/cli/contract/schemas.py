"""Runs commands with --json and validates what they print against the schemas that the command ships."""

import functools
import json

import jsonschema

from command import good, run


def refuse(constant):
    raise ValueError(f"{constant} is not JSON")


def strict_json(text):
    """JSON without Python's NaN and Infinity."""
    return json.loads(text, parse_constant=refuse)


@functools.cache
def schema(name):
    return strict_json(good("schema", name))


@functools.cache
def validator(name):
    jsonschema.Draft202012Validator.check_schema(schema(name))
    return jsonschema.Draft202012Validator(schema(name))


def checked(command, *args, statuses=(0,), **kwargs):
    """The JSON of a command, which its schema allows. None: an error, about which standard output says nothing."""
    done = run(command, *args, "--json", **kwargs)
    assert done.returncode in statuses, done
    if done.returncode >= 2 and not done.stdout:
        assert done.stderr.startswith(b"cairn: "), done
        return None
    document = strict_json(done.stdout)
    validator(command).validate(document)
    return document

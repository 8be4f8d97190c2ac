"""An opened checkpoint: a lazy mapping whose leaves read only what is asked for."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from cairn import _cairn
from cairn._arguments import printable
from cairn._leaves import item_value
from cairn._load_stored import load_below
from cairn._read_plan import ReadPlan

TYPE_CHECKING = False  # typing takes longer to import than all of this package
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from typing_extensions import Unpack

    from cairn._options import LoadBelowOptions, StoreOptions

    _Mapping = Mapping[Any, Any]
else:
    _Mapping = Mapping


def open(
    path: str | os.PathLike[str],
    *,
    step: int | None = None,
    item: str | None = None,
    allow_uncommitted: bool = False,
    metadata_key: str = "",
    generation: int | None = None,
    commit_time_ns: int | None = None,
    threads: int = 0,
    memory: int | None = None,
    allow_missing: bool = False,
    storage_options: StoreOptions | None = None,
) -> Checkpoint:
    """Opens a checkpoint of any format and reads its metadata only.

    Warns (UserWarning) of each part that a checkpoint of Orbax records and lacks: an item, or the
    file that lists the leaves.

    Args:
      path: a directory or file, or the URL of a checkpoint: `file:///path`, `s3://bucket/path`,
        `gs://bucket/path`, `hf://owner/name@revision/path`, `http://host/path` or `https://`. A URL
        is a str, because pathlib.Path makes one slash of two.
      step: the step to open below a directory of steps; None: the latest complete one.
      item: the item to open of a checkpoint that has several.
      allow_uncommitted: open a checkpoint that an interrupted save has left, too.
      metadata_key: the name of the files with the arrays' metadata, where it is not the usual one.
      generation: the version of the database to read, by its number; None: the newest.
      commit_time_ns: the newest version at that time, in nanoseconds since 1970.
      threads: worker threads of reads; 0: one for each core.
      memory: working memory of reads in bytes; None: 1 GiB.
      allow_missing: load() and others use what is left of a checkpoint that lacks a part it
        records. False: they raise CorruptionError. Single leaves can be read in either case.
      storage_options: how to reach the store of a URL, a dict. Local paths ignore it. What it does
        not give comes from the environment variables and files of the vendors' own tools.
        endpoint: the server, "http://localhost:9000". region, profile: of S3; profile is a section
        of the shared configuration files. anonymous: True: send no credentials. access_key,
        secret_key, session_token: the keys of an account of S3. bearer_token: an access token of
        Google Cloud Storage or of the Hugging Face Hub. path_style: True:
        http://endpoint/bucket/key, False: http://bucket.endpoint/key. verify_tls: False: accept any
        certificate. ca_file: the certificates to trust, PEM. max_connections: 32. connect_timeout:
        10 seconds. stall_timeout: 30 seconds without a byte. retry_time: 120 seconds for all tries
        of a request.

    Raises:
      FileNotFoundError: nothing is there, or no such step or item.
      RuntimeError: the checkpoint is unfinished.
      ValueError: this is not a checkpoint; the message says what was looked for.
      CorruptionError: nothing is left of what the checkpoint records.
      OSError: the store cannot be reached, or refuses the credentials.
      NotImplementedError: the URL is of another scheme.
    """
    path = os.fsdecode(path)
    reader = _cairn.open(
        path,
        step,
        item,
        allow_uncommitted,
        threads,
        memory,
        metadata_key,
        generation,
        commit_time_ns,
        allow_missing=allow_missing,
        storage_options=storage_options,
    )
    _warn(reader, 3)
    return Checkpoint(reader, path)


def open_whole(
    path: str | os.PathLike[str],
    step: int | None,
    item: str | None,
    allow_missing: bool,
    storage_options: StoreOptions | None,
) -> Checkpoint:
    """Opens a checkpoint for cairn.load. Raises CorruptionError if a part is missing."""
    path = os.fsdecode(path)
    reader = _cairn.open(
        path, step, item, allow_missing=allow_missing, storage_options=storage_options
    )
    reader.check_complete()
    _warn(reader, 4)
    return Checkpoint(reader, path)


def _warn(reader: Any, stacklevel: int) -> None:
    for text in reader.warnings():
        import warnings

        warnings.warn(text, stacklevel=stacklevel)


class Group(_Mapping):
    """A dict, list or tuple of a checkpoint. Indexing returns a Group or a Tensor."""

    _path = ""

    def __init__(self, reader: Any, node: Any, name: str) -> None:
        self.reader = reader
        self._node = node
        self._name = name

    def _repr_html_(self) -> str:
        from cairn._html import drawn

        return drawn(self)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, tuple):
            found: Any = self
            for part in key:
                found = found[part]
            return found
        if isinstance(self._node, int):  # a checkpoint of one array without a name
            if key == "":
                return leaf(self.reader, self._node)
        elif isinstance(self._node, dict):
            if key in self._node:
                return self._child(key, self._node[key])
        elif isinstance(key, int) and -len(self._node) <= key < len(self._node):
            return self._child(key % len(self._node), self._node[key])
        elif hasattr(self._node, "_fields") and key in self._node._fields:
            return self._child(key, getattr(self._node, key))
        return self._by_name(key)

    def __iter__(self) -> Iterator[Any]:
        if isinstance(self._node, int):
            return iter(("",))
        if isinstance(self._node, dict):
            return iter(self._node)
        return iter(range(len(self._node)))

    def __len__(self) -> int:
        return 1 if isinstance(self._node, int) else len(self._node)

    def __contains__(self, key: object) -> bool:
        try:
            self[key]
        except (KeyError, ValueError, TypeError):
            return False
        return True

    def _ipython_key_completions_(self) -> list[Any]:
        """The keys that IPython and Jupyter offer after checkpoint[" """
        return list(self)

    def __repr__(self) -> str:
        kind = type(self._node).__name__
        return f"<cairn.Group {self._name or '(root)'}: {kind} of {len(self)}>"

    def load(self, **options: Unpack[LoadBelowOptions]) -> Any:
        """Reads everything below into memory. Options as those of cairn.load without a target."""
        return load_below(self.reader, self._node, self._name or self._path, **options)

    def _child(self, key: Any, node: Any) -> Any:
        name = f"{self._name}.{key}" if self._name else str(key)
        if isinstance(node, int):
            return leaf(self.reader, node)
        return Group(self.reader, node, name)

    def _by_name(self, key: Any) -> Any:
        """A leaf by its name from here: "dense.kernel" or "dense/kernel"."""
        if not isinstance(key, str):
            raise KeyError(key)
        node: Any = self._node
        for part in key.replace("/", ".").split("."):
            if isinstance(node, dict) and part in node:
                node = node[part]
            elif isinstance(node, dict) and (keys := [k for k in node if str(k) == part]):
                node = node[keys[0]]  # an int
            elif isinstance(node, Sequence) and part.isdigit() and int(part) < len(node):
                node = node[int(part)]
            elif hasattr(node, "_fields") and part in node._fields:
                node = getattr(node, part)
            else:
                return leaf(self.reader, self._index(key))
        full = f"{self._name}.{key}" if self._name else key
        return leaf(self.reader, node) if isinstance(node, int) else Group(self.reader, node, full)

    def _index(self, key: str) -> int:
        full = f"{self._name}.{key}" if self._name else key
        try:
            return int(self.reader.index(full))
        except KeyError as error:
            keys = [printable(str(k)) for k in list(self)[:8]]
            more = ", ..." if len(self) > len(keys) else ""
            where = f"{self._name!r}" if self._name else "the checkpoint"
            text = error.args[0] + ("" if error.args[0].endswith("?") else ";")
            raise KeyError(f"{text} {where} has {', '.join(keys)}{more}") from None


def leaf(reader: Any, index: int) -> Any:
    """A Tensor, or the value of a leaf that is not an array."""
    if reader.tensor(index).kind in ("array", "unknown", "custom"):
        return Tensor(reader, index)
    return item_value(reader, index)


class Checkpoint(Group):
    """An opened checkpoint. A mapping of its tree: ckpt["params"]["w"], or ckpt["params.w"]."""

    def __init__(self, reader: Any, path: str) -> None:
        self.reader = reader
        self._name = ""
        self._path = path
        self.path = path
        self._structure: Any = None

    @property
    def _node(self) -> Any:
        """The structure, which a load of everything does not need."""
        if self._structure is None:
            self._structure = self.reader.structure(True)
        return self._structure

    @property
    def info(self) -> dict[str, Any]:
        """Format, layout, step, items, counts and bytes: what `cairn info --json` shows."""
        import json

        return dict(json.loads(self.reader.info_json()))

    @property
    def tensors(self) -> dict[str, Tensor]:
        """All arrays by name."""
        return {
            self.reader.tensor(i).name: Tensor(self.reader, i)
            for i in range(len(self.reader))
            if self.reader.tensor(i).kind in ("array", "unknown", "custom")
        }

    def tree(self) -> str:
        """The tree, drawn with one line for each node."""
        return str(self.reader.drawn())

    def dequantized(self, dtype: str | None = None) -> Checkpoint:
        """The checkpoint with floating-point arrays in place of its quantised weights.

        Reads only shapes that are stored as leaves. docs/guides/dequantize.md lists the formats.
        Scales and zero points are gone. This checkpoint stays as it is.

        Args:
          dtype: the type of the weights: "bfloat16", "float32"; None: that of the config.json
            beside the files, else bfloat16, and float32 for quantised tensors of PyTorch.

        Raises:
          ValueError: a weight without scales, or whose blocks have an ambiguous size, named.
          CorruptionError: parts of a weight that do not fit each other.
          NotImplementedError: a format that Cairn does not dequantise, named.
        """
        return Checkpoint(self.reader.dequantized(dtype or ""), self.path)

    def json_item(self, name: str) -> Any:
        """The value of a JSON item ("metrics"), or None if there is none of this name."""
        import json

        text = self.reader.json_item(name)
        return None if text is None else json.loads(text)

    def report(
        self,
        path: str | os.PathLike[str],
        *,
        other: Checkpoint | None = None,
        include: str | list[str] | None = None,
        exclude: str | list[str] | None = None,
        values: bool = True,
        verify: bool = True,
        steps: int = 0,
        overwrite: bool = False,
        storage_options: StoreOptions | None = None,
        progress: Any = None,
    ) -> dict[str, Any]:
        """Writes one HTML file that shows the checkpoint in a browser (docs/guides/report.md).

        The file loads nothing from the network. It appears complete or not at all.

        Args:
          path: the file to write, or its URL (s3://, gs://).
          other: a checkpoint to compare; the page shows how this one differs.
          include: globs of the names to show, or one glob; None: all. An empty list is a KeyError.
          exclude: globs of the names to leave out, or one.
          values: read all values, and show statistics and histograms.
          verify: read all stored bytes, and show what is damaged.
          steps: also show statistics over this many steps, at most 100: the last complete ones of
            the directory of steps that was opened. 0: none.
          overwrite: replace an existing file.
          storage_options: how to reach the store of a URL; None: as the checkpoint was opened.
          progress: True (a bar), or a function of bytes done and bytes in total.

        Returns:
          a dict with "path", "bytes" (of the file), "tensors" (how many the page lists),
          "unlisted", "unreadable" (arrays whose values cannot be read), "verdict" ("good",
          "not_checked", "damaged"; None without verify) and "different" (leaves; None without
          other).

        Raises:
          FileExistsError: the file exists, and overwrite is False, or it is not a regular file.
          ValueError: the file lies in the checkpoint; include and exclude select nothing; steps is
            wrong.
        """
        from cairn._html import write_page

        chosen = {
            "include": include,
            "exclude": exclude,
            "values": values,
            "verify": verify,
            "steps": steps,
            "overwrite": overwrite,
        }
        return write_page(self, path, other, chosen, storage_options, progress)

    def __repr__(self) -> str:
        from cairn._html import size_text

        info = self.info
        count = sum(1 for i in range(len(self.reader)) if self.reader.tensor(i).kind == "array")
        nbytes = sum(self.reader.tensor(i).nbytes for i in range(len(self.reader)))
        what = info["format"]
        if info.get("step") is not None:
            what += f", step {info['step']}"
        return f"<cairn.Checkpoint {self.path!r}: {what}, {count} arrays, {size_text(nbytes)}>"


class Tensor:
    """An array of a checkpoint. Nothing is read before it is indexed or converted."""

    def __init__(self, reader: _cairn.Reader, index: int) -> None:
        self._reader = reader
        self._index = index
        self._info = reader.tensor(index)

    @property
    def name(self) -> str:
        """The keys joined with dots: "params.w"; with several items, "item/params.w"."""
        return self._info.name

    @property
    def dtype(self) -> str:
        """NumPy's name of the element type: "bfloat16"."""
        return self._info.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self._info.shape

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self._info.nbytes

    @property
    def stored_nbytes(self) -> int:
        """Bytes in the checkpoint."""
        return self._info.stored_nbytes

    @property
    def chunk_shape(self) -> tuple[int, ...]:
        """Shape of the stored chunks; () if there are none."""
        return self._info.chunk_shape

    @property
    def sharding(self) -> str | None:
        """The stored sharding as JSON text; None if none is stored."""
        return self._info.sharding or None

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array of rank 0 has no length")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<cairn.Tensor {printable(self.name)}: {self.dtype}{list(self.shape)}>"

    def _repr_html_(self) -> str:
        from cairn._html import tensor_drawn

        return tensor_drawn(self)

    def __getitem__(self, index: Any) -> Any:
        """Reads a part: integers, slices and `...`, as NumPy. Returns an array of NumPy."""
        box, rest = _box(index, self.shape)
        (array,) = self._reader.read([(self._index, [b[0] for b in box], [b[1] for b in box])])
        return array[rest]

    def numpy(self) -> Any:
        """The whole array, in memory of its own."""
        (array,) = self._reader.read([(self._index, [0] * self.ndim, list(self.shape))])
        return array

    def view(self) -> Any:
        """The whole array, read-only, in the mapped file. Nothing is copied or checked.

        Raises RuntimeError unless the array is stored as one uncompressed chunk in a local file.
        """
        array = self._reader.view(self._index)
        if array is None:
            raise RuntimeError(
                f"{printable(self.name)}: not stored as one uncompressed chunk in a local "
                "file, so it cannot be mapped; numpy() reads it"
            )
        return array

    def torch(self) -> Any:
        """The whole array as a tensor of PyTorch."""
        from cairn import _torch

        return _torch.from_numpy(self.numpy())

    def jax(self, sharding: Any = None) -> Any:
        """The whole array as an array of JAX. With a sharding, each part is read once.

        Returns a typed random key as a typed key; a sharding then applies to its data.
        """
        import jax

        implementation = self._reader.random_key_impl(self._index)
        if sharding is None and not implementation:
            return jax.numpy.asarray(self.numpy())
        plan = ReadPlan(self._reader)
        if implementation:
            plan.add_keys(self._index, sharding, implementation)
        else:
            plan.add_sharded(self._index, sharding, lambda array: array)
        return plan.run(None)[0]

    def read_into(self, out: Any) -> Any:
        """Reads the array into an array of NumPy or a tensor of PyTorch; returns that.

        For a DTensor, each rank reads its part.
        """
        torch = sys.modules.get("torch")
        destination = out
        box = [0] * self.ndim, list(self.shape)
        if torch is not None and isinstance(out, torch.Tensor):
            from cairn import _torch

            if _torch.shape(out) != self.shape:
                raise ValueError(
                    f"{printable(self.name)}: the stored shape is {self.shape}, the "
                    f"destination's is {_torch.shape(out)}"
                )
            box = _torch.box(out)
            destination = _torch.writable(out.detach(), self.name)
        self._reader.read_into([(self._index, *box, destination)])
        return out

    def item(self) -> Any:
        """The only element, as a number of Python."""
        return self.numpy().item()

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if copy is False:
            raise ValueError("reading makes a new array; view() does not")
        array = self.numpy()
        return array if dtype is None else array.astype(dtype, copy=False)


def _box(index: Any, shape: tuple[int, ...]) -> tuple[list[tuple[int, int]], tuple[Any, ...]]:
    """The box that covers an index, and what is left to do on the array that was read."""
    parts = list(index) if isinstance(index, tuple) else [index]
    if sum(part is ... for part in parts) > 1:
        raise IndexError("an index can only have one '...'")
    if ... in [part for part in parts if part is ...]:
        at = next(i for i, part in enumerate(parts) if part is ...)
        parts[at : at + 1] = [slice(None)] * (len(shape) - len(parts) + 1)
    parts += [slice(None)] * (len(shape) - len(parts))
    if len(parts) > len(shape):
        raise IndexError(f"{len(parts)} indices for an array of rank {len(shape)}")
    box, rest = [], []
    for dimension, (part, extent) in enumerate(zip(parts, shape, strict=True)):
        first, count, left = _range(part, extent, dimension)
        box.append((first, count))
        rest.append(left)
    return box, tuple(rest)


def _range(part: Any, extent: int, dimension: int) -> tuple[int, int, Any]:
    """First element, number of elements to read, and the index into these."""
    if isinstance(part, slice):
        wanted = range(*part.indices(extent))
        if len(wanted) == 0:
            return 0, 0, slice(None)
        first, last = min(wanted[0], wanted[-1]), max(wanted[0], wanted[-1])
        step = slice(None) if wanted.step == 1 else slice(None, None, wanted.step)
        return first, last - first + 1, step
    operator: Callable[[], int] | None = getattr(part, "__index__", None)
    if operator is None or isinstance(part, bool):
        kind = type(part).__qualname__
        raise TypeError(f"index with integers, slices and '...', not with {kind}")
    number = operator()
    if not -extent <= number < extent:
        raise IndexError(f"index {number} is out of range for dimension {dimension} of {extent}")
    return number % extent, 1, 0

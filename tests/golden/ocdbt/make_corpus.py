"""Cuts the seeds of the OCDBT fuzz targets out of the golden databases: whole objects, and bodies of uncompressed ones.

    python make_corpus.py
"""

import json
import pathlib

GOLDEN = pathlib.Path(__file__).resolve().parent / "tensorstore-0.1.86"
CORPUS = pathlib.Path(__file__).resolve().parents[3] / "fuzz" / "corpus"
FOLDERS = {0x0CDB3A2A: "ocdbt_manifest", 0x0CDB20DE: "ocdbt_btree", 0x0CDB1234: "ocdbt_version"}
PER_DATABASE = 2  # of each kind


def main():
    for database in sorted(p for p in GOLDEN.iterdir() if p.is_dir()):
        written = dict.fromkeys(FOLDERS.values(), 0)
        for item in json.loads((GOLDEN / f"{database.name}.json").read_text())["objects"]:
            data = (database / item["file"]).read_bytes()
            if "offset" in item:
                data = data[item["offset"] : item["offset"] + item["length"]]
            folder = FOLDERS[int.from_bytes(data[:4], "big")]
            if written[folder] == PER_DATABASE or len(data) > 2000:
                continue
            written[folder] += 1
            (CORPUS / folder).mkdir(parents=True, exist_ok=True)
            name = f"{database.name}_{written[folder]}"
            (CORPUS / folder / name).write_bytes(data)
            if data[13] == 0:
                (CORPUS / folder / f"{name}_body").write_bytes(data[14:-4])


if __name__ == "__main__":
    main()

"""What people write: layers into dicts, rows past them, one line at a time."""
import gzip
import json
import os
import sys


def rows(folder):
    """Rows of a batch, or of a layer of it, in the order of its blocks."""
    with open(os.path.join(folder, "manifest.yaml")) as f:
        blocks = json.load(f)["blocks"]
    for block in sorted(blocks, key=lambda b: b["first_id"]):
        with gzip.open(os.path.join(folder, block["file"]), "rt", encoding="utf-8", newline="\n") as lines:
            for line in lines:
                yield json.loads(line)


def layer(root, name):
    return {row["id"]: row["data"] for row in rows(os.path.join(root, "annotations", name, "b"))}


def main(root, path):
    words, lang = layer(root, "words"), layer(root, "lang")
    with open(path, "w", encoding="utf-8", newline="\n") as out:
        for row in rows(os.path.join(root, "b")):
            w, l = words.get(row["id"]), lang.get(row["id"])
            if w is None or l is None or not w["count"] > 150 or l["code"] != "en":
                continue
            row.update(("words." + k, v) for k, v in w.items())
            row.update(("lang." + k, v) for k, v in l.items())
            out.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")


main(sys.argv[1], sys.argv[2])

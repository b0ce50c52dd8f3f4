"""The merge that is written first: dicts, and json.dumps."""
import glob, gzip, json, sys

source, target = sys.argv[1:3]
rows = []
for path in sorted(glob.glob(source + "/*_chunk_*.jsonl")):
    with open(path) as chunk:
        for line in chunk:
            rows.append(json.loads(line))
rows.sort(key=lambda r: (r["_created_at"], r["id"]))
ids, keys, kept = set(), set(), []
for row in rows:
    key = (row["text"], row["source_id"])
    if row["id"] not in ids and key not in keys:
        ids.add(row["id"])
        keys.add(key)
        kept.append(row)
kept.sort(key=lambda r: r["id"])
for n, start in enumerate(range(0, len(kept), 50_000)):
    with gzip.open(f"{target}/merged_{n:05d}.jsonl.gz", "wt", compresslevel=6) as block:
        for row in kept[start:start + 50_000]:
            block.write(json.dumps(row) + "\n")

"""Counts words: an annotator in ten lines.

    siltstone annotate corpus --annotator words --columns text -- python3 examples/words.py
"""
import json, sys

for line in sys.stdin:
    row = json.loads(line)
    words = (row["data"].get("text") or "").split()
    answer = {"id": row["id"], "data": {"words": len(words), "longest": max(words, key=len, default="")}}
    print(json.dumps(answer), flush=True)

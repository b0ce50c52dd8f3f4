#!/usr/bin/env python3
"""Make jargon.ndjson.gz out of Debian's package dict-jargon.

    apt-get install dict-jargon
    python3 make.py            # writes jargon.ndjson.gz beside this file

The same input gives the same bytes: entries in the order of the file, keys in
a fixed order, no time stamp and no name in the gzip header.
"""
import gzip
import json
import pathlib
import re

SOURCE = pathlib.Path("/usr/share/dictd")
DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
SOUND = re.compile(r"/([^/]+)/,?\s*")
GRAMMAR = re.compile(
    r"\b(abbrev|adj|adv|cav|conj|excl|imp|infix|interj|n|obs|pl|pref|prep|prov|quant|suff|v|vi|vt)\b"
)


def number(text):
    """A number as dictd's index writes it: base 64, most significant first."""
    value = 0
    for digit in text:
        value = value * 64 + DIGITS.index(digit)
    return value


def spans():
    """Where the entries lie in the text: (offset, length), each once."""
    found = set()
    for line in (SOURCE / "jargon.index").read_text("utf-8").splitlines():
        word, offset, length = line.split("\t")[:3]
        if not word.startswith("00-database"):
            found.add((number(offset), number(length)))
    return sorted(found)


def paragraph(block):
    """Prose loses its line ends; lists, code and drawings keep theirs."""
    lines = [line.removeprefix("    ").rstrip() for line in block.splitlines()]
    drawn = any("\u2500" <= char <= "\u257f" for char in block)
    prose = not drawn and not any(line.startswith(" ") for line in lines)
    if prose and all(len(line) >= 55 for line in lines[:-1]):
        return " ".join(lines)
    return "\n".join(lines)


def row(entry):
    """One entry as a row. Its first line is the term, its second the sound
    and the part of speech (either may be missing), the rest is the text."""
    term, _, rest = entry.partition("\n")
    head, _, body = rest.partition("\n")
    head = head.strip()
    sounds = SOUND.findall(head)
    grammar = GRAMMAR.findall(SOUND.sub("", head))
    blocks = re.split(r"\n(?:[ \t]*\n)+", body.strip("\n"))
    text = "\n\n".join(paragraph(block) for block in blocks).strip()

    out = {"term": term.strip()}
    if sounds:
        out["sound"] = ", ".join(sounds)
    if grammar:
        out["grammar"] = ", ".join(part + "." for part in grammar)
    out["text"] = text
    out["chars"] = len(text)
    letter = term.strip()[0].upper()
    out["letter"] = letter if "A" <= letter <= "Z" else "#"
    return out


def main():
    data = gzip.decompress((SOURCE / "jargon.dict.dz").read_bytes())
    rows = [row(data[at:at + size].decode("utf-8")) for at, size in spans()]
    lines = "".join(json.dumps(r, ensure_ascii=False, separators=(",", ":")) + "\n" for r in rows)
    target = pathlib.Path(__file__).with_name("jargon.ndjson.gz")
    with open(target, "wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as out:
        out.write(lines.encode("utf-8"))
    print(f"{target.name}: {len(rows)} rows, {target.stat().st_size} bytes")


if __name__ == "__main__":
    main()

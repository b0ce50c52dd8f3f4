/** A stretch of text, or one character that would not be seen or would move what is seen. */
export type Piece =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "hidden"; readonly label: string; readonly title: string };

// Controls, bidi controls, invisible spaces, line and paragraph separators, tag characters and lone surrogates. The two
// joiners (U+200C, U+200D) stay: emoji and several scripts are written with them.
const hidden =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what this is about
  /[\u0000-\u0008\u000b\u000c\u000d\u000e-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]|\p{Surrogate}/gu;

const names: ReadonlyMap<number, string> = new Map([
  [0x00, "null"],
  [0x07, "bell"],
  [0x08, "backspace"],
  [0x0d, "carriage return"],
  [0x1b, "escape"],
  [0x7f, "delete"],
  [0xad, "soft hyphen"],
  [0x200b, "zero width space"],
  [0x200e, "left-to-right mark"],
  [0x200f, "right-to-left mark"],
  [0x2028, "line separator"],
  [0x2029, "paragraph separator"],
  [0x202a, "left-to-right embedding"],
  [0x202b, "right-to-left embedding"],
  [0x202c, "pop directional formatting"],
  [0x202d, "left-to-right override"],
  [0x202e, "right-to-left override"],
  [0x2066, "left-to-right isolate"],
  [0x2067, "right-to-left isolate"],
  [0x2068, "first strong isolate"],
  [0x2069, "pop directional isolate"],
  [0xfeff, "byte order mark"],
]);

/** Splits text so that what hides in it can be shown. `\r\n` counts as a line end and not as something hidden. */
export function pieces(text: string): readonly Piece[] {
  const out: Piece[] = [];
  let from = 0;
  for (const match of text.matchAll(hidden)) {
    const code = match[0].codePointAt(0) ?? 0;
    if (code === 0x0d && text[match.index + 1] === "\n") continue;
    if (match.index > from) out.push({ kind: "text", text: text.slice(from, match.index) });
    from = match.index + match[0].length;
    out.push({ kind: "hidden", label: label(code), title: title(code) });
  }
  if (from < text.length) out.push({ kind: "text", text: text.slice(from) });
  return out;
}

function label(code: number): string {
  return code < 0x100 ? `\\x${hex(code, 2)}` : `U+${hex(code, 4)}`;
}

function title(code: number): string {
  const name = code >= 0xd800 && code < 0xe000 ? "half of a character" : names.get(code);
  return `U+${hex(code, 4)}${name === undefined ? "" : `, ${name}`}`;
}

function hex(code: number, digits: number): string {
  return code.toString(16).toUpperCase().padStart(digits, "0");
}

import { VisibleText } from "../../../components/VisibleText";
import { formatCount } from "../../../lib/format";
import type { Cell } from "./kinds";

const lengthFrom = 160;
const titleMost = 90;

/** A text with its first line as its title, where it has one, and its true length, where it does not fit. */
export const textCell: Cell = {
  className: "text",
  render: (v, column, row) => {
    const text = String(v);
    const length = row.clipped.get(column.name) ?? text.length;
    const [title, body] = split(text);
    return (
      <>
        <span className="flow">
          {title !== null && (
            <b>
              <VisibleText text={title} />
            </b>
          )}
          <VisibleText text={body} />
        </span>
        {length > lengthFrom && (
          <span className="len" title={`${formatCount(length)} characters`}>
            {formatCount(length)}
          </span>
        )}
      </>
    );
  },
};

function split(text: string): readonly [title: string | null, body: string] {
  const end = text.indexOf("\n");
  if (end <= 0 || end > titleMost || text.slice(end).trim() === "") return [null, text];
  const title = text.slice(0, end).trimEnd();
  // What ends as a sentence does is the beginning of the text.
  if (/[.,;:!]$/.test(title)) return [null, text];
  return [title, text.slice(end + 1).trimStart()];
}

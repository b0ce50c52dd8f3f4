import { useState } from "react";
import { formatCount } from "../lib/format";
import { VisibleText } from "./VisibleText";

interface Props {
  readonly text: string;
  /** More than this is shown only when asked for: a browser chokes on megabytes of text. */
  readonly most: number;
}

export function LongText({ text, most }: Props) {
  const [all, setAll] = useState(false);
  if (all || text.length <= most) return <VisibleText text={text} />;
  return (
    <>
      <VisibleText text={text.slice(0, cutAt(text, most))} />…{" "}
      <button type="button" className="link" onClick={() => setAll(true)}>
        Show all {formatCount(text.length)} characters
      </button>
    </>
  );
}

/** Not between the halves of a character. */
function cutAt(text: string, at: number): number {
  const unit = text.charCodeAt(at - 1);
  return unit >= 0xd800 && unit < 0xdc00 ? at - 1 : at;
}

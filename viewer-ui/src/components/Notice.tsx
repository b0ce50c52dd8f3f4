import { useEffect, useState } from "react";
import { formatSpan } from "../lib/format";
import { useLiveSignal } from "../live/LiveProvider";

const shownFor = 8000;

/** Says that the connection is back and what that means for what is shown. */
export function Notice() {
  const [text, setText] = useState("");
  useLiveSignal((s) => {
    if (s.kind !== "refresh") return;
    if (s.why === "reconnected") setText(`Connected again after ${formatSpan(s.awayMs)}. The page is up to date.`);
    if (s.why === "reset") setText("Events were missed. The page was read anew and is up to date.");
  });
  useEffect(() => {
    if (text === "") return;
    const timer = setTimeout(() => setText(""), shownFor);
    return () => clearTimeout(timer);
  }, [text]);
  return (
    <div className="notice" role="status" hidden={text === ""}>
      {text}
    </div>
  );
}

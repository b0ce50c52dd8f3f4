import { memo } from "react";
import { pieces } from "../lib/visible";

/** Text of the data: a text node and never markup, with hidden characters shown, in its own direction. */
export const VisibleText = memo(function VisibleText({ text }: { readonly text: string }) {
  const all = pieces(text);
  if (all.length === 0) return null;
  const only = all[0];
  if (all.length === 1 && only?.kind === "text") return <bdi>{only.text}</bdi>;
  return (
    <bdi>
      {all.map((p, i) =>
        p.kind === "text" ? (
          p.text
        ) : (
          // biome-ignore lint/suspicious/noArrayIndexKey: the pieces of a text have no other name
          <span key={i} className="hiddenchar" title={p.title}>
            {p.label}
          </span>
        ),
      )}
    </bdi>
  );
});

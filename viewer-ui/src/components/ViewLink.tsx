import type { ReactNode } from "react";
import { go, viewUrl } from "../lib/location";
import type { View } from "../lib/urlState";

interface Props {
  readonly to: View;
  readonly className?: string;
  readonly children: ReactNode;
}

/** A link within the page. It is a real one: it opens in a new tab as others do. */
export function ViewLink({ to, className, children }: Props) {
  return (
    <a
      href={viewUrl(to)}
      className={className}
      onClick={(e) => {
        if (e.button !== 0 || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey) return;
        e.preventDefault();
        go(to);
      }}
    >
      {children}
    </a>
  );
}

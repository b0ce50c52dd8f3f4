import { useEffect, useState } from "react";
import { copyText } from "../lib/copy";
import { Icon, type IconName } from "./Icon";

interface Props {
  readonly className: string;
  readonly label: string;
  /** Shown in place of the label. */
  readonly icon?: IconName;
  readonly text: () => string;
}

/** Copies, and says for a moment that it did. */
export function CopyButton({ className, label, icon, text }: Props) {
  const [state, setState] = useState<"idle" | "copied" | "failed">("idle");
  useEffect(() => {
    if (state === "idle") return;
    const timer = setTimeout(() => setState("idle"), 1600);
    return () => clearTimeout(timer);
  }, [state]);
  const said = state === "idle" ? label : state === "copied" ? "Copied" : "Not copied";
  return (
    <button
      type="button"
      className={className}
      aria-label={icon ? said : undefined}
      title={icon ? said : undefined}
      onClick={async () => setState((await copyText(text())) ? "copied" : "failed")}
    >
      {icon ? <Icon name={state === "copied" ? "check" : icon} /> : said}
    </button>
  );
}

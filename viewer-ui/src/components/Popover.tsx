import { type ReactNode, useId, useRef } from "react";

interface Props {
  /** What the button says. */
  readonly label: ReactNode;
  /** What the panel is called. */
  readonly title: string;
  readonly children: ReactNode;
}

/** A button and the panel that it opens. The browser closes it on Esc and on a click elsewhere, and returns focus. */
export function Popover({ label, title, children }: Props) {
  const id = useId();
  const button = useRef<HTMLButtonElement>(null);
  const panel = useRef<HTMLDivElement>(null);

  function place() {
    const from = button.current?.getBoundingClientRect();
    if (!from || !panel.current) return;
    const width = panel.current.offsetWidth;
    const left = Math.max(8, Math.min(from.right - width, window.innerWidth - width - 8));
    panel.current.style.left = `${left}px`;
    panel.current.style.top = `${from.bottom + 6}px`;
    panel.current.style.maxHeight = `${window.innerHeight - from.bottom - 22}px`;
  }

  return (
    <>
      <button ref={button} type="button" className="btn" popoverTarget={id} aria-haspopup="dialog">
        {label}
      </button>
      <div
        ref={panel}
        id={id}
        popover="auto"
        role="dialog"
        aria-label={title}
        className="popover"
        onToggle={place}
        onKeyDown={(e) => e.stopPropagation()}
      >
        {children}
      </div>
    </>
  );
}

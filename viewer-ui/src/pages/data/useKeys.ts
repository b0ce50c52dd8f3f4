import { useEffect, useRef } from "react";

export interface KeyActions {
  move(by: number | "first" | "last"): void;
  side(by: number): void;
  screen(): number;
  open(): void;
  close(): void;
  copy(what: "cell" | "row"): void;
  help(): void;
}

/** Keys of the table. Those typed in a field, a panel or a dialog are not for it. */
export function useKeys(actions: KeyActions): void {
  const latest = useRef(actions);
  useEffect(() => {
    latest.current = actions;
  });
  useEffect(() => {
    function onKey(e: KeyboardEvent) {
      if (e.ctrlKey || e.metaKey || e.altKey || e.defaultPrevented || e.isComposing) return;
      const target = e.target instanceof Element ? e.target : document.body;
      if (target.closest("input, textarea, select, [contenteditable]")) return;
      const onControl = target.closest("button, a, summary") !== null;
      const inGrid = target === document.body || target.closest("[role=grid]") !== null;
      if (act(latest.current, e.key, onControl, inGrid)) e.preventDefault();
    }
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
}

function act(a: KeyActions, key: string, onControl: boolean, inGrid: boolean): boolean {
  switch (key) {
    case "j":
      a.move(1);
      return true;
    case "k":
      a.move(-1);
      return true;
    case "g":
      a.move("first");
      return true;
    case "c":
      a.copy("cell");
      return true;
    case "y":
      a.copy("row");
      return true;
    case "?":
      a.help();
      return true;
    case "Escape":
      a.close();
      return true;
    case "Enter":
      if (onControl) return false;
      a.open();
      return true;
  }
  if (!inGrid) return false;
  switch (key) {
    case "ArrowDown":
      a.move(1);
      return true;
    case "ArrowUp":
      a.move(-1);
      return true;
    case "ArrowRight":
      a.side(1);
      return true;
    case "ArrowLeft":
      a.side(-1);
      return true;
    case "PageDown":
      a.move(a.screen());
      return true;
    case "PageUp":
      a.move(-a.screen());
      return true;
    case "Home":
      a.move("first");
      return true;
    case "End":
      a.move("last");
      return true;
  }
  return false;
}

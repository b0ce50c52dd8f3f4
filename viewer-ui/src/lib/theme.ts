import { recall, remember } from "./remember";

export type Theme = "light" | "dark";

/** The theme that was chosen, or the system's. */
export function theme(): Theme {
  const chosen = recall("theme");
  if (chosen === "light" || chosen === "dark") return chosen;
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

/** Puts the chosen theme on the page; without a choice the stylesheet follows the system. */
export function applyTheme(): void {
  const chosen = recall("theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
}

export function setTheme(t: Theme): void {
  remember("theme", t);
  document.documentElement.dataset.theme = t;
}

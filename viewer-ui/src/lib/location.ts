import { useSyncExternalStore } from "react";
import { decodeView, encodeView, type View } from "./urlState";

const changed = "siltstone:view";
let seen = "";
let view: View = decodeView("");

function current(): View {
  // The same view object as long as the address is the same.
  if (seen !== location.search) {
    seen = location.search;
    view = decodeView(seen);
  }
  return view;
}

function subscribe(tell: () => void): () => void {
  addEventListener("popstate", tell);
  addEventListener(changed, tell);
  return () => {
    removeEventListener("popstate", tell);
    removeEventListener(changed, tell);
  };
}

/** The view that the address names. */
export function useView(): View {
  return useSyncExternalStore(subscribe, current);
}

/** The address of a view, relative to wherever the page lives. */
export function viewUrl(v: View): string {
  return encodeView(v) || "./";
}

/** Goes to a view; with replace, without a new step in the browser's history. */
export function go(v: View, how: "push" | "replace" = "push"): void {
  const url = new URL(viewUrl(v), pageUrl());
  if (url.href === location.href) return;
  if (how === "push") history.pushState(null, "", url);
  else history.replaceState(null, "", url);
  dispatchEvent(new Event(changed));
}

export function absoluteUrl(v: View): string {
  return new URL(viewUrl(v), pageUrl()).href;
}

function pageUrl(): string {
  const base = new URL(document.baseURI);
  return base.origin + base.pathname;
}

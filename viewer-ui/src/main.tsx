import "@fontsource-variable/ibm-plex-sans/wght.css";
import "@fontsource-variable/source-serif-4/wght.css";
import "./styles/index.css";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./App";
import { applyTheme } from "./lib/theme";

applyTheme();

// After an upgrade the old page's chunks are gone: one reload brings the new page.
addEventListener("vite:preloadError", () => {
  if (sessionStorage.getItem("siltstone.reloaded") !== null) return;
  sessionStorage.setItem("siltstone.reloaded", "1");
  location.reload();
});

const root = document.getElementById("root");
if (!root) throw new Error("the page has no root");
createRoot(root).render(
  <StrictMode>
    <App />
  </StrictMode>,
);

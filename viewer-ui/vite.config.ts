import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

export default defineConfig({
  // Relative: the page works under any base path without being told of it.
  base: "./",
  plugins: [react()],
  build: {
    target: ["chrome123", "firefox128", "safari17.5"],
    // The server's CSP allows no data: URLs in scripts and styles.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  server: { proxy: { "/api": process.env.SILTSTONE_URL ?? "http://127.0.0.1:8080" } },
});

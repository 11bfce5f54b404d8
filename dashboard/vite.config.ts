import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

// The server sends `default-src 'self'`: nothing may be inlined, not even an icon as a data URL.
export default defineConfig({
  plugins: [svelte()],
  build: {
    outDir: "../src/headway/serve/static",
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: "es2022",
    reportCompressedSize: true,
  },
});

import { defineConfig } from "vitest/config";

// One script and one style sheet, named by their content: the same sources give the same bytes.
export default defineConfig({
  build: {
    outDir: "../agui/panel/static",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: false,
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 700,
  },
  test: { include: ["tests/**/*.test.ts"], testTimeout: 60_000, hookTimeout: 60_000 },
});

import { defineConfig, type ViteUserConfig } from 'vitest/config';

const config: ViteUserConfig = defineConfig({
  test: { include: ['test/**/*.test.ts'], exclude: ['test/browser/**'] },
});

export default config;

import { fileURLToPath } from 'node:url';
import { defineConfig, type ViteUserConfig } from 'vitest/config';

/** Tests of the public interface, run against what was built: it must do what the source does. */
const config: ViteUserConfig = defineConfig({
  test: { include: ['test/client.test.ts', 'test/simulation.test.ts'], testTimeout: 30_000 },
  resolve: {
    alias: [
      { find: /^.*\/src\/index\.ts$/, replacement: fileURLToPath(new URL('dist/index.js', import.meta.url)) },
    ],
  },
});

export default config;

/**
 * The package is minified: an entry and the canonical form of filters. Properties that only the SDK's own objects have get short
 * names: those that are listed in `internal-names.json` and no others (no such object passes from one module to the other). A name
 * that is also public, sent or received must not be in it; the build fails where one is in the declarations, and
 * `npm run test:built` runs the tests against what was built.
 *
 * Functions of the source are constants: the minifier joins those into one statement, and what is one expression costs no `return`.
 */
import { type MinifyOptions, minify } from 'terser';
import { defineConfig, type UserConfig } from 'tsdown';
import internal from './internal-names.json' with { type: 'json' };

const INTERNAL = new RegExp(`^(${internal.join('|')})$`);

const OPTIONS: MinifyOptions = {
  module: true,
  ecma: 2020,
  toplevel: true,
  compress: { passes: 4, unsafe_arrows: true, inline: 1, pure_getters: true, evaluate: false },
  mangle: { properties: { regex: INTERNAL, builtins: true, keep_quoted: true } },
};

const config: UserConfig = defineConfig({
  entry: ['src/index.ts'],
  format: ['esm'],
  platform: 'neutral',
  target: 'es2022',
  dts: true,
  // Beside the modules, which do not name it.
  sourcemap: 'hidden',
  clean: true,
  // What Terser leaves, after it.
  minify: { compress: true, mangle: false },
  plugins: [
    {
      name: 'short-names',
      async renderChunk(code, { fileName }) {
        if (fileName.endsWith('.d.ts')) return null;
        const { code: short = '', map } = await minify(code, { ...OPTIONS, sourceMap: { asObject: true } });
        return { code: short, map: map as never };
      },
      generateBundle(_, bundle) {
        for (const [file, output] of Object.entries(bundle)) {
          if (!file.endsWith('.d.ts') || output.type !== 'chunk') continue;
          const bare = output.code.replace(/\/\*.*?\*\/|\/\/.*|'[^']*'/gs, '');
          const open = (bare.match(/\w+/g) ?? []).filter((word) => INTERNAL.test(word));
          if (open.length) this.error(`Not internal, but public: ${open.join(', ')}`);
        }
      },
    },
  ],
});

export default config;

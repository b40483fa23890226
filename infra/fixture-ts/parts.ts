/**
 * The real parts for tests written in TypeScript: MongoDB, Redis, Varnish, from the same fixture that the
 * Rust tests use (`infra/fixture`), and shared with them.
 *
 * A child process holds the parts for us. It lets go when `close` is called or when this process ends, however
 * it ends, for then its standard input ends; so no part is left behind.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** What a test needs. */
export interface Wanted {
  /** A replica set: of one node, shared by all tests, or of three, one's own. */
  mongo?: 1 | 3;
  /** Redis, shared by all tests. */
  redis?: boolean;
  /** A Varnish of one's own before the gateways on these loopback ports, which may start later. */
  varnish?: { backends: readonly number[]; vcl?: string };
}

/** One process of a part. */
export interface Node {
  readonly port: number;
  readonly pid: number;
  readonly directory: string;
}

/** The parts asked for, and the way to give them back. */
export interface Parts {
  readonly mongo?: { readonly uri: string; readonly nodes?: readonly Node[] };
  readonly redis?: { readonly url: string };
  readonly varnish?: { readonly url: string; readonly secret: string; readonly node: Node };
  /** Gives the parts back. One's own are stopped, shared ones when nobody else uses them. */
  close(): Promise<void>;
}

/** The fixture's binary, built like the gateway's: `cargo build --workspace --bins`. */
const BINARY: string = fileURLToPath(new URL('../../target/debug/freshet-fixture', import.meta.url));

/** Starts what is missing and resolves when all of it is ready. */
export async function holdParts(wanted: Wanted): Promise<Parts> {
  if (!existsSync(BINARY)) throw new Error(`${BINARY} is missing: run cargo build --workspace --bins`);
  const child = spawn(BINARY, ['hold', ...options(wanted)], { stdio: ['pipe', 'pipe', 'inherit'] });
  const held = JSON.parse(await firstLine(child)) as Omit<Parts, 'close'>;
  return { ...held, close: () => letGo(child) };
}

function options(wanted: Wanted): string[] {
  const list: string[] = [];
  if (wanted.mongo !== undefined) list.push('--mongo', String(wanted.mongo));
  if (wanted.redis) list.push('--redis');
  if (wanted.varnish) {
    list.push('--varnish', '--backend', wanted.varnish.backends.join(','));
    if (wanted.varnish.vcl !== undefined) list.push('--vcl', wanted.varnish.vcl);
  }
  return list;
}

function firstLine(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = '';
    child.stdout?.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk;
      const end = text.indexOf('\n');
      if (end >= 0) resolve(text.slice(0, end));
    });
    child.once('error', reject);
    child.once('exit', (code) =>
      reject(new Error(`the fixture ended with ${code}; is everything installed (infra/install)?`)),
    );
  });
}

function letGo(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null) return resolve();
    child.once('exit', () => resolve());
    child.stdin?.end();
  });
}

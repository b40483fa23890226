/**
 * The whole chain of real parts, started for one test file: MongoDB and Redis, the gateway, Varnish before it. What each hop did
 * is read from that hop's own counters, never inferred from the answer.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createConnection, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { MongoClient } from 'mongodb';
import { holdParts, type Parts } from '../../../infra/fixture-ts/parts.ts';

const BINARY: string = fileURLToPath(new URL('../../../target/debug/freshet', import.meta.url));

/** The gateway's own Redis database: the parts are shared with other tests. */
const REDIS_DATABASE = 15;

/** Long enough that no copy runs out during a test, short enough to wait for a new sketch to become whole (C8). */
const MAX_AGE_S = 25;

export interface Chain {
  /** What pages talk to. */
  readonly varnish: string;
  /** The gateway itself, for its metrics and for what must not pass Varnish's counters. */
  readonly gateway: string;
  /** The plain driver: a program that knows nothing of Freshet. */
  readonly foreign: MongoClient;
  readonly database: string;
  /** A counter of Varnish, such as `MAIN.cache_hit`. */
  varnishCounter(name: string): number;
  /** The sum of a metric of the gateway over the label sets that contain `labels`. */
  metric(name: string, labels?: string): Promise<number>;
  readyz(): Promise<{ ready: boolean; pipeline: { saturated: boolean; purges_pending: number } }>;
  stop(): Promise<void>;
}

/** Starts everything; the sketch may still be saturated. */
export async function startChain(): Promise<Chain> {
  const port = await freePort();
  const parts = await holdParts({ mongo: 1, redis: true, varnish: { backends: [port] } });
  const { mongo, redis, varnish } = parts;
  if (!mongo || !redis || !varnish) throw new Error('the fixture did not start everything');
  await flush(redis.url);
  const database = `chain${process.pid}x${Date.now().toString(36)}`;
  const directory = mkdtempSync(join(tmpdir(), 'freshet-chain-'));
  const config = join(directory, 'freshet.toml');
  writeFileSync(config, settings({ port, database, parts }));
  const foreign = await MongoClient.connect(mongo.uri);
  const child = spawn(BINARY, ['serve', '--config', config], { stdio: ['ignore', 'inherit', 'inherit'] });
  const gateway = `http://127.0.0.1:${port}`;
  await answers(`${gateway}/healthz`, child);
  return {
    varnish: varnish.url,
    gateway,
    foreign,
    database,
    varnishCounter: (name) => varnishCounter(varnish.node.directory, name),
    metric: (name, labels) => metric(gateway, name, labels),
    readyz: async () => (await fetch(`${gateway}/readyz`)).json(),
    async stop() {
      await foreign.db(database).dropDatabase();
      await foreign.close();
      await ended(child);
      await parts.close();
      rmSync(directory, { recursive: true });
    },
  };
}

function settings({ port, database, parts }: { port: number; database: string; parts: Parts }): string {
  return `
store = "${parts.mongo?.uri}"
redis = "${parts.redis?.url}/${REDIS_DATABASE}"
[server]
listen = "127.0.0.1:${port}"
[policy]
max_age_max = "${MAX_AGE_S}s"
shared_max_age_max = "${MAX_AGE_S}s"
[admission]
doorkeeper = false
[log]
level = "warn"
[[access]]
collection = "${database}.*"
read = "public"
[[edge]]
kind = "varnish"
urls = ["${parts.varnish?.url}"]
secret = "${parts.varnish?.secret}"
`;
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer().once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() => resolve(typeof address === 'object' && address ? address.port : 0));
    });
  });
}

/** Empties the gateway's Redis database, so that an earlier run's sketch is not taken up. */
function flush(url: string): Promise<void> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    const socket = createConnection(Number(port), hostname, () => {
      socket.write(`SELECT ${REDIS_DATABASE}\r\nFLUSHDB\r\nQUIT\r\n`);
    });
    socket.once('error', reject).once('close', () => resolve());
    socket.resume();
  });
}

async function answers(url: string, child: ChildProcess): Promise<void> {
  for (let attempt = 0; attempt < 400; attempt += 1) {
    if (child.exitCode !== null) throw new Error(`the gateway ended with ${child.exitCode}`);
    const ok = await fetch(url).then(
      (response) => response.ok,
      () => false,
    );
    if (ok) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error('the gateway did not come up');
}

function ended(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null) return resolve();
    child.once('exit', () => resolve());
    child.kill('SIGTERM');
  });
}

function varnishCounter(directory: string, name: string): number {
  const json = execFileSync('varnishstat', ['-n', directory, '-1', '-j', '-f', name], { encoding: 'utf8' });
  const { counters } = JSON.parse(json) as { counters: Record<string, { value: number }> };
  const counter = counters[name];
  if (counter === undefined) throw new Error(`Varnish has no counter ${name}`);
  return counter.value;
}

async function metric(gateway: string, name: string, labels = ''): Promise<number> {
  const text = await (await fetch(`${gateway}/metrics`)).text();
  const lines = text.split('\n').filter((line) => line.startsWith(name) && line.includes(labels));
  return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0);
}

/**
 * A model of everything between a session and the database: true history, an edge that is purged late, a browser cache, a sketch
 * that lags. Written from the coherence contract, in virtual time, without I/O. The gateway in it keeps C1–C5.
 */
import type { Fetch } from '../../src/index.ts';
import { encodeSketch } from './sketch.ts';

export const COLLECTION = '/v1/db/c';
export const IDS = ['r0', 'r1', 'r2'] as const;

/** Lifetimes and bounds in milliseconds. */
export const M = 8_000;
export const S = 20_000;
export const INVALIDATION = 1_000;

interface Write {
  readonly position: number;
  readonly id: string;
  readonly at: number;
}

interface Stored {
  readonly text: string;
  readonly position: number;
  readonly until: number;
}

export class World {
  now = 0;
  readonly writes: Write[] = IDS.map((id, i) => ({ position: i + 1, id, at: -1_000_000 }));
  /** How far the sketch's watermark is behind. */
  lag = 0;
  sketchUp = true;
  /** How long after a write its purge comes, at most INVALIDATION. */
  purgeDelay = 0;
  /** Sketches on their way wait for this. */
  gate: Promise<void> = Promise.resolve();
  readonly #edge = new Map<string, Stored>();
  readonly #browser = new Map<string, Stored>();
  readonly #horizons = new Map<string, number>();
  readonly #stale: { key: string; position: number; until: number }[] = [];
  readonly #purges: { at: number; keys: string[] }[] = [];

  get position(): number {
    return this.writes.length;
  }

  /** Position of the last write to `id`, or to anything, at or before a position. */
  last(id: string | null, position: number = this.position): number {
    return this.writes.findLast((w) => w.position <= position && (id === null || w.id === id))?.position ?? 0;
  }

  /** When the state after `position` ended: the moment of the next write. */
  ended(id: string | null, position: number): number {
    return this.writes.find((w) => w.position > position && (id === null || w.id === id))?.at ?? Infinity;
  }

  write(id: string): number {
    const position = this.position + 1;
    this.writes.push({ position, id, at: this.now });
    const keys = [`${COLLECTION}/${id}`, COLLECTION];
    for (const key of keys) {
      const until = this.#horizons.get(key) ?? 0;
      if (until > this.now) this.#stale.push({ key, position, until });
    }
    this.#purges.push({ at: this.now + this.purgeDelay, keys });
    return position;
  }

  pass(ms: number): void {
    this.now += ms;
    for (const { at, keys } of this.#purges) {
      if (at <= this.now) for (const key of keys) this.#edge.delete(key);
    }
    const waiting = this.#purges.filter(({ at }) => at > this.now);
    this.#purges.splice(0, Infinity, ...waiting);
  }

  #body(key: string): string {
    const record = (id: string): object => ({ _id: id, v: this.last(id) });
    return JSON.stringify(
      key === COLLECTION ? { items: IDS.map(record) } : record(key.slice(COLLECTION.length + 1)),
    );
  }

  #origin(key: string): Stored {
    const members = key === COLLECTION ? IDS.map((id) => `${COLLECTION}/${id}`) : [];
    for (const k of [key, ...members]) this.#horizons.set(k, this.now + S + M);
    const stored = { text: this.#body(key), position: this.position, until: this.now + S };
    this.#edge.set(key, stored);
    return stored;
  }

  #fresh(cache: Map<string, Stored>, key: string): Stored | undefined {
    const stored = cache.get(key);
    return stored && stored.until > this.now ? stored : undefined;
  }

  #read(key: string, mode: RequestCache | undefined): Stored {
    const own = mode === 'default' ? this.#fresh(this.#browser, key) : undefined;
    if (own) return own;
    const answer = (mode === 'reload' ? undefined : this.#fresh(this.#edge, key)) ?? this.#origin(key);
    this.#browser.set(key, { ...answer, until: this.now + M });
    return answer;
  }

  #sketch(): Response {
    if (!this.sketchUp) return new Response('', { status: 503 });
    const asOf = this.now - this.lag;
    const watermark = this.writes.findLast(({ at }) => at <= asOf)?.position ?? 0;
    const keys = this.#stale
      .filter((s) => s.position <= watermark && s.until > this.now)
      .map(({ key }) => key);
    const bytes = encodeSketch({
      keys,
      ageMs: this.lag,
      watermark: BigInt(watermark),
      invalidationMs: INVALIDATION,
    });
    return new Response(bytes);
  }

  readonly fetch: Fetch = async (url, { method, cache }) => {
    const key = new URL(url).pathname;
    if (key.endsWith('/_sketch')) {
      const response = this.#sketch();
      await this.gate;
      return response;
    }
    if (method !== undefined) {
      const id = key.slice(COLLECTION.length + 1);
      const position = this.write(id);
      const headers = { 'freshet-position': String(position), etag: `"${id}-${position}"` };
      this.#browser.delete(key);
      return new Response(JSON.stringify({ _id: id, v: position }), { headers });
    }
    const { text, position } = this.#read(key, cache);
    const headers = {
      'freshet-position': String(position),
      'cache-control': `public, max-age=${M / 1_000}, s-maxage=${S / 1_000}`,
      etag: `"${text}"`,
    };
    return new Response(text, { headers });
  };
}

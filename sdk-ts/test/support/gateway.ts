/**
 * A small HTTP server that speaks the protocol to the SDK: records, queries of all, counts, writes, the sketch. It stands in
 * for gateway and edge in tests of the SDK's logic: it logs what it is asked and answers old states when told to.
 */
import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { encodeSketch, type Spec } from './sketch.ts';

export interface Logged {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingMessage['headers'];
}

/** One answer: what a cache or the origin says for a URL. */
export interface Said {
  readonly status?: number;
  readonly body: unknown;
  readonly position?: bigint | null;
  readonly cacheControl?: string;
  readonly etag?: string;
}

type Document = Record<string, unknown>;

export class Gateway {
  readonly log: Logged[] = [];
  readonly records: Map<string, Document> = new Map();
  position: bigint = 100n;
  maxAge = 60;
  /** What the sketch says; `watermark` follows the position unless it is set. */
  sketch: Spec = {};
  /** Answers the sketch's endpoint instead, e.g. with an error. */
  sketchStatus = 200;
  /** Answers instead of the live state, by URL, where it answers anything. */
  readonly caches: Map<string, (request: Logged) => Said | undefined> = new Map();
  /** Reads wait for this. */
  gate: Promise<void> = Promise.resolve();
  readonly #server: Server;

  private constructor() {
    this.#server = createServer((request, response) => void this.#serve(request, response));
  }

  static async start(): Promise<Gateway> {
    const gateway = new Gateway();
    await new Promise<void>((resolve) => gateway.#server.listen(0, '127.0.0.1', resolve));
    return gateway;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  /** Requests for data, as `method url`, since the last call. */
  drain(): string[] {
    const lines = this.log
      .filter(({ url }) => !url.endsWith('/_sketch'))
      .map(({ method, url }) => `${method} ${url}`);
    this.log.length = 0;
    return lines;
  }

  sketches(): number {
    return this.log.filter(({ url }) => url.endsWith('/_sketch')).length;
  }

  /** Somebody else's write. */
  set(id: string, document: Document): bigint {
    this.records.set(id, { _id: id, ...document });
    return ++this.position;
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const logged: Logged = { method: request.method ?? '', url: request.url ?? '', headers: request.headers };
    response.setHeader('access-control-allow-origin', '*');
    response.setHeader('access-control-expose-headers', 'ETag, Freshet-Position, Location');
    response.setHeader('timing-allow-origin', '*');
    if (request.method === 'OPTIONS') {
      response.setHeader('access-control-allow-methods', '*');
      response.setHeader('access-control-allow-headers', '*');
      response.writeHead(204).end();
      return;
    }
    this.log.push(logged);
    if (logged.url.endsWith('/_sketch')) return this.#sketch(response);
    let body = '';
    for await (const chunk of request) body += chunk;
    if (request.method !== 'GET')
      return this.#write(logged, body === '' ? undefined : JSON.parse(body), response);
    const said = this.caches.get(logged.url)?.(logged) ?? this.#read(logged.url);
    await this.gate;
    this.#answer(logged, said, response);
  }

  #sketch(response: ServerResponse): void {
    response.setHeader('cache-control', 'private, no-store, max-age=0');
    response.writeHead(this.sketchStatus, { 'content-type': 'application/vnd.freshet.sketch' });
    response.end(
      this.sketchStatus === 200 ? encodeSketch({ watermark: this.position, ...this.sketch }) : 'down',
    );
  }

  #read(url: string): Said {
    const { pathname, searchParams } = new URL(url, 'http://x');
    const [, , , , last] = pathname.split('/');
    if (last === '_count') return { body: { count: this.records.size } };
    if (last !== undefined) {
      const record = this.records.get(decodeURIComponent(last));
      return record
        ? { body: record }
        : { status: 404, body: { type: 'about:blank', title: 'Not found', status: 404 } };
    }
    const items = [...this.records.values()].map((record) =>
      searchParams.get('view') === 'ids'
        ? { _ref: `${pathname}/${encodeURIComponent(String(record._id))}` }
        : record,
    );
    return { body: { items } };
  }

  #answer({ headers }: Logged, said: Said, response: ServerResponse): void {
    const { status = 200, body, position = this.position } = said;
    const text = JSON.stringify(body);
    const etag = said.etag ?? `W/"${createHash('sha256').update(text).digest('hex').slice(0, 32)}"`;
    const cached = status === 200;
    response.setHeader(
      'cache-control',
      said.cacheControl ?? (cached ? `public, max-age=${this.maxAge}` : 'private, no-store, max-age=0'),
    );
    if (cached) response.setHeader('etag', etag);
    if (position !== null && (cached || said.position))
      response.setHeader('freshet-position', String(position));
    response.setHeader('content-type', cached ? 'application/json' : 'application/problem+json');
    if (cached && headers['if-none-match'] === etag) response.writeHead(304).end();
    else response.writeHead(status).end(text);
  }

  #write({ method, url, headers }: Logged, body: unknown, response: ServerResponse): void {
    const id = decodeURIComponent(url.split('/')[4] ?? '');
    if (headers['if-match'] === '"wrong"') {
      this.#answer(
        { method, url, headers: {} },
        {
          status: 412,
          body: { type: 'about:blank', title: 'Precondition failed', status: 412, detail: 'It changed' },
        },
        response,
      );
      return;
    }
    const documents: Document[] = [];
    if (method === 'POST') {
      for (const document of [body].flat() as Document[]) {
        documents.push({ _id: `n${this.records.size + documents.length}`, ...document });
      }
    } else if (method === 'DELETE') {
      this.records.delete(id);
    } else {
      documents.push({ ...(method === 'PATCH' ? this.records.get(id) : {}), ...(body as Document), _id: id });
    }
    for (const document of documents) this.records.set(String(document._id), document);
    response.setHeader('cache-control', 'private, no-store, max-age=0');
    response.setHeader('freshet-position', String(++this.position));
    if (method === 'DELETE') {
      response.writeHead(204).end();
      return;
    }
    const text = JSON.stringify(Array.isArray(body) ? { items: documents } : documents[0]);
    response.setHeader('etag', `W/"${createHash('sha256').update(text).digest('hex').slice(0, 32)}"`);
    response.writeHead(method === 'POST' ? 201 : 200).end(text);
  }
}

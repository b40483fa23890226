/**
 * A real Chromium with the built SDK in a blank page, for tests of what only a browser has: the HTTP cache and the fetch cache
 * modes. The page is served from a port of its own, so that the gateway (any base URL: the test's own server, a
 * gateway, a cache before one) is another origin, as it is for most applications.
 *
 * No request is ever routed through the driver: an active route turns the browser's cache off.
 */
import { readFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type Browser, chromium, type Page } from 'playwright-core';

/** Where the distribution installs it; another place comes from the environment. */
const CHROMIUM: string = process.env.CHROMIUM_PATH ?? '/usr/bin/chromium';

const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
];

export interface Options {
  /** The gateway as the page sees it: scheme and authority. */
  readonly gateway: string;
}

export interface Harness {
  readonly page: Page;
  /** A new page with an empty cache; `window.sdk` holds the SDK's exports, `window.gateway` the gateway's URL. */
  fresh(): Promise<Page>;
  stop(): Promise<void>;
}

const DIST = new URL('../../dist/', import.meta.url);

const PAGE = `<!doctype html><title>harness</title><script type="module">
import * as sdk from '/sdk/index.js';
window.sdk = sdk;
</script>`;

async function servePage(): Promise<Server> {
  const server = createServer(async (request, response) => {
    const file = /^\/sdk\/([\w.-]+\.js)$/.exec(request.url ?? '')?.[1];
    try {
      const body = file === undefined ? PAGE : await readFile(new URL(file, DIST));
      response.setHeader('content-type', file === undefined ? 'text/html' : 'text/javascript');
      response.end(body);
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return server;
}

async function openPage(browser: Browser, origin: string, gateway: string): Promise<Page> {
  const context = await browser.newContext();
  const page = await context.newPage();
  await page.goto(origin);
  await page.waitForFunction(() => window.sdk !== undefined);
  await page.evaluate((url) => {
    window.gateway = url;
  }, gateway);
  return page;
}

/** Starts the browser and opens the page. Needs the built package. */
export async function launch({ gateway }: Options): Promise<Harness> {
  const [server, browser] = await Promise.all([
    servePage(),
    chromium.launch({ executablePath: CHROMIUM, args: FLAGS }),
  ]);
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  const fresh = (): Promise<Page> => openPage(browser, origin, gateway);
  const page = await fresh();
  const stop = async (): Promise<void> => {
    await browser.close();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
  return { page, fresh, stop };
}

declare global {
  interface Window {
    sdk: typeof import('../../src/index.ts');
    gateway: string;
  }
}

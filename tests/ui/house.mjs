// A store of its own, the program that serves it, and browsers that look at it.
//
// ./test says what to use: FOLIO (the program), BROWSER (Chromium) and PACKAGES (where playwright-core is). With UI set to a
// folder, the files of the page come from there, so that they can be tried without compiling.

import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const { FOLIO, BROWSER, PACKAGES, UI } = process.env;
const require = createRequire(join(PACKAGES, 'package.json'));
const { chromium } = require('playwright-core');
// Checks the accessibility of a page.
const { AxeBuilder } = require('@axe-core/playwright');

const QUIET = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync'];
/** The addresses of the web page. */
const PAGES = /^\/((runs|observations|threads|turns|pages)(\/[^/]+)?|search)?$/;
/** Milliseconds to wait for something. */
const PATIENCE = 30_000;

export class House {
  static async open(serve = []) {
    const house = new House();
    house.folder = mkdtempSync(join(tmpdir(), 'folio-ui-'));
    house.store = `sqlite:${join(house.folder, 'store.db')}`;
    house.browser = await chromium.launch({ executablePath: BROWSER, args: QUIET, timeout: 3 * PATIENCE });
    house.serving = serve;
    house.begun = [];
    return house;
  }

  /** Runs the program and returns its output. */
  folio(...words) {
    const options = { cwd: this.folder, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'], timeout: 120_000, maxBuffer: 1 << 28 };
    return execFileSync(FOLIO, ['--store', this.store, '--thread', 'main', ...words], options);
  }

  /** Starts a `folio` process, which ends with the house. */
  begin(...words) {
    const process = spawn(FOLIO, ['--store', this.store, '--thread', 'main', ...words], { cwd: this.folder, stdio: 'ignore' });
    this.begun.push(process);
    return process;
  }

  file(name, content) {
    writeFileSync(join(this.folder, name), typeof content === 'string' ? content : JSON.stringify(content));
  }

  /** Starts the server at a free port, or at its earlier one. */
  async serve(...more) {
    const at = this.base ? new URL(this.base).host : this.listen ?? '127.0.0.1:0';
    const words = ['--store', this.store, 'serve', '--listen', at, '--attended', ...this.serving, ...more];
    this.server = spawn(FOLIO, words, { cwd: this.folder, stdio: ['ignore', 'pipe', 'pipe'] });
    let said = '';
    this.server.stderr.on('data', (data) => { said += data; });
    this.base = await new Promise((done, failed) => {
      let out = '';
      this.server.stdout.on('data', (data) => { out += data; if (out.includes('\n')) done(out.trim().replace(/\/$/, '')); });
      this.server.once('exit', (code) => failed(new Error(`folio serve ended with ${code}: ${said}`)));
    });
    this.base = this.base.replace('0.0.0.0', '127.0.0.1');
  }

  async stop() {
    const { server } = this;
    this.server = null;
    if (!server || server.exitCode !== null) return;
    const over = new Promise((done) => server.once('exit', done));
    server.kill('SIGTERM');
    await over;
  }

  async close() {
    await this.browser?.close();
    await this.stop();
    for (const process of this.begun) process.kill('SIGKILL');
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** Sends a request to the server, as any program would. */
  async ask(method, path, body) {
    const headers = { 'content-type': 'application/json', ...(this.token ? { authorization: `Bearer ${this.token}` } : {}) };
    const answer = await fetch(`${this.base}/v1/spaces/main${path}`, { method, headers, body: body && JSON.stringify(body) });
    const said = await answer.json();
    assert.ok(answer.ok, `${method} ${path}: ${answer.status} ${said.detail}`);
    return said;
  }

  /** Starts a run that the server drives, and returns its handle. */
  async run(body) {
    return (await this.ask('POST', '/runs', body)).handle;
  }

  /**
   * Opens a page in the browser. It fails if it contacts another server, or if its script or a route of a test fails.
   * `page.change(at, change)` answers requests for data at `at` with what `change` makes of the server's JSON.
   */
  async page(path, { width = 1280, height = 800, dark = false, quiet = false } = {}) {
    const context = await this.browser.newContext({
      viewport: { width, height }, colorScheme: dark ? 'dark' : 'light', reducedMotion: 'reduce', serviceWorkers: 'block', locale: 'en-GB', timezoneId: 'UTC',
    });
    context.setDefaultTimeout(PATIENCE);
    const page = await context.newPage();
    const wrong = [];
    let isOver = false;
    // Outside a test, an error would fail its file without a word; requests in progress fail when the page closes.
    const guarded = (handler) => async (route) => {
      try { await handler(route); } catch (error) {
        // `unrouteAll` lets the requests of the routes that it removes go on, which may be under way here as well.
        if (!isOver && !/already handled/.test(error.message)) wrong.push(`route: ${error.stack}`);
        await route.abort().catch(() => {});
      }
    };
    const route = page.route.bind(page);
    page.route = (at, handler, options) => route(at, guarded(handler), options);
    page.change = (at, change) => page.route(at, async (asked) => {
      const request = asked.request(), { pathname, search } = new URL(request.url());
      if (request.method() !== 'GET' || request.isNavigationRequest()) return asked.fallback();
      const told = await this.ask('GET', pathname.replace('/v1/spaces/main', '') + search);
      return asked.fulfill({ json: change(told) });
    });
    await context.route('**/*', guarded((route) => {
      const url = new URL(route.request().url());
      if (url.origin !== this.base) { wrong.push(`asked ${url}`); return route.abort(); }
      const file = UI && url.pathname.startsWith('/ui/') && join(UI, url.pathname.slice(4));
      if (file && existsSync(file)) return route.fulfill({ path: file, contentType: kindOf(file), headers: { 'content-security-policy': POLICY } });
      if (UI && route.request().isNavigationRequest()) {
        const [name, status] = PAGES.test(url.pathname) ? ['index.html', 200] : url.pathname === '/docs' ? ['docs.html', 200] : ['lost.html', 404];
        return route.fulfill({ status, body: readFileSync(join(UI, name), 'utf8'), contentType: 'text/html; charset=utf-8', headers: { 'content-security-policy': POLICY } });
      }
      return route.continue();
    }));
    page.on('pageerror', (error) => wrong.push(`script: ${error.stack}`));
    page.on('console', (message) => {
      // The browser's messages about error responses, and about a server that is gone, are not errors of the page.
      const isNetwork = /Failed to load resource|net::ERR_/.test(message.text());
      if (message.type() === 'error' && !(quiet && isNetwork)) wrong.push(`console: ${message.text()}`);
    });
    await page.goto(this.base + path);
    page.done = async () => {
      isOver = true;
      await context.close();
      assert.deepEqual(wrong, []);
    };
    return page;
  }
}

const POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const kindOf = (file) => ({ js: 'text/javascript', css: 'text/css', svg: 'image/svg+xml', html: 'text/html' })[file.split('.').pop()];

/** Waits until `look` returns something, and returns it. */
export async function until(look, what) {
  const end = Date.now() + PATIENCE;
  for (;;) {
    const found = await look();
    if (found) return found;
    if (Date.now() > end) throw new Error(`never came: ${what}`);
    await new Promise((done) => setTimeout(done, 30));
  }
}

/** Waits until `locator` finds `many` elements. */
export const counts = (locator, many, what = `${many} of ${locator}`) => until(async () => (await locator.count()) === many, what);

/** Whether no part of the page is wider than the window. */
export const fits = (page) => page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth);

/** The accessibility violations, by the rules of a third-party checker. */
export async function hindrances(page) {
  // The name of a row has the words of its state after the title, and no time that runs.
  const { violations } = await new AxeBuilder({ page }).disableRules('label-content-name-mismatch').analyze();
  return violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.html.slice(0, 120)).join(' | ')}`);
}

/** A task that waits until it is stopped, or long enough for anything to be looked at. */
export const LONG = { tool: 'wait', args: { ms: 60_000 } };
export const echo = (value) => ({ tool: 'text', args: { op: 'echo', value } });

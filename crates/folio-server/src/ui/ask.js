// Requests to the server: single answers and event streams, with the token of this tab if one is required.
//
// Streams are read with fetch and not with EventSource, which cannot send a token. They pause while the tab is hidden:
// a browser opens at most six connections to one server, however many tabs there are.

import { heardAt } from './clock.js';
import { $ } from './dom.js';

const KEY = 'folio.token';
/**
 * The characters of a token. A browser refuses to send a header with others, which would look as if the server were
 * gone.
 */
const TOKEN = /^[\x21-\x7e]+$/;
/** Milliseconds between attempts to reach a server that is gone; the last value is repeated. */
const PAUSES = [300, 600, 1200, 2500, 5000];
/** Milliseconds after which to poll for what no event reports. */
export const QUIET = 5000;
/** Milliseconds within which a process should begin to drive a run that was started or continued. */
export const CHANCE = 8000;
/** Milliseconds without a byte after which a stream is dead: the server sends something every 15 seconds. */
const SILENT = 45_000;
/** Milliseconds after which a request that was not answered has failed: the server ends each after 30 seconds. */
const PATIENCE = 60_000;
let space = null;
let asking = null;

export class Refusal extends Error {
  constructor(problem, status) {
    super(problem.detail || problem.title || `the server answered ${status}`);
    Object.assign(this, { status, code: problem.code, hints: problem.hints ?? [] });
  }
}

export const isGone = (error) => error instanceof TypeError || error.name === 'TimeoutError';
/**
 * Whether a refusal is temporary: too many requests, or the store does not respond. A query that takes too long will
 * take too long the next time as well.
 */
export const isBusy = (error) => error instanceof Refusal && (error.status === 429 || error.status === 503) && error.code !== 'too_slow';
/** Whether an error is temporary, so that the request is repeated. */
export const passes = (error) => isGone(error) || isBusy(error);
/** The error to show to people instead of content. */
export const told = (error) => (isGone(error) ? Object.assign(new Error('The server is not responding.'), { gone: true }) : error);

/**
 * The error of an action, to show to people. It stays when the server is back, which does not say whether the action was
 * done; only trying again does.
 */
export const failureOf = (error) => (isGone(error) ? new Error('The server did not answer. It may have done this all the same; if you try again within a minute, it is done only once.') : error);

/** Shows whether the server responds and, if not, because of which `error`. */
export function connection(is, error) {
  const isThere = error instanceof Refusal;
  document.body.classList.toggle('gone', !is && !isThere);
  $('connection').textContent = is ? '' : isThere ? `The server is temporarily unavailable (${error.message}). Retrying…` : 'No connection to the server. Retrying…';
  if (is) for (const said of document.querySelectorAll('.trouble.away')) said.remove();
}

/** Asks the user for a token, once for all requests that wait for it. */
function unlock(why) {
  asking ??= new Promise((done) => {
    const dialog = $('unlock'), said = () => $('unlock-token').value.trim();
    const over = new AbortController(), { signal } = over;
    $('unlock-why').textContent = why;
    $('unlock-token').value = '';
    if (!dialog.open) dialog.showModal();
    dialog.addEventListener('cancel', (event) => event.preventDefault(), { signal });
    dialog.addEventListener('submit', (event) => {
      if (TOKEN.test(said())) return;
      event.preventDefault();
      $('unlock-why').textContent = 'This is not a valid token: it contains characters that no token has. Copy it again.';
    }, { signal });
    dialog.addEventListener('close', () => {
      sessionStorage.setItem(KEY, said());
      over.abort();
      asking = null;
      done();
    }, { signal });
  });
  return asking;
}

/** The token of this tab, if it has one that can be sent. */
function tokenOf() {
  const token = sessionStorage.getItem(KEY);
  if (!token || TOKEN.test(token)) return token;
  sessionStorage.removeItem(KEY);
  return null;
}

/** Fetches, with the token of this tab. A connection that died without a word counts as a server that is gone. */
async function raw(path, { isStream = false, ...options } = {}) {
  const given = options.signal ? [options.signal] : [];
  for (;;) {
    const token = tokenOf();
    const headers = { ...options.headers, ...(token ? { authorization: `Bearer ${token}` } : {}) };
    const signal = AbortSignal.any(isStream ? given : [...given, AbortSignal.timeout(PATIENCE)]);
    const answer = await fetch(path, { ...options, headers, signal });
    heardAt(answer.headers);
    if (answer.ok) return answer;
    const problem = await answer.json().catch(() => ({}));
    // A token for another space is of no use here: like for an invalid one, another is asked for.
    if (answer.status !== 401 && problem.code !== 'token_of_another_space') throw new Refusal(problem, answer.status);
    await unlock(token ? problem.detail : 'This server requires an access token.');
  }
}

const below = (path) => `/v1/spaces/${encodeURIComponent(space)}${path}`;

/**
 * Returns the result of `ask`, repeating it while the server is temporarily unavailable. Other errors are thrown, and
 * all errors once it `isOver`. `waits` says which errors are temporary.
 */
export async function patiently(ask, signal, { isOver = () => false, waits = passes } = {}) {
  for (let attempt = 0; ; attempt++) {
    try {
      const given = await ask();
      connection(true);
      return given;
    } catch (error) {
      if (!waits(error) || signal?.aborted || isOver()) {
        // The server responded, whatever the answer is.
        if (error instanceof Refusal && !isBusy(error)) connection(true);
        throw error;
      }
      connection(false, error);
      // An overloaded server gets at least a second.
      const at = attempt + (isBusy(error) ? 2 : 0);
      await new Promise((done) => setTimeout(done, PAUSES[Math.min(at, PAUSES.length - 1)]));
      if (signal) await seen(signal);
      if (signal?.aborted || isOver()) throw error;
    }
  }
}

/** Returns the name of the space that is open, asking the server the first time; waits until the server responds. */
export async function begin() {
  if (space !== null) return space;
  const { items: [served] } = await patiently(async () => (await raw('/v1/spaces')).json());
  space = served.space;
  return space;
}

/** A path with query fields; empty ones are left out. */
export function query(path, fields) {
  const wanted = Object.entries(fields).filter(([, value]) => value !== '' && value !== null && value !== undefined && value !== false);
  return wanted.length ? `${path}?${new URLSearchParams(wanted)}` : path;
}

/** Gets a resource below the space. */
export async function get(path, { as = 'json', signal } = {}) {
  const answer = await raw(below(path), { signal });
  if (as === 'answer') return { body: await answer.json(), etag: answer.headers.get('etag') };
  return answer[as]();
}

/** The keys of requests that may have been done, though no answer came. The same again has the same key for a while. */
const unanswered = new Map();
/** Actions that undo each other: one that is done after the other is another one, even with the same words. */
const UNDOES = { pause: 'continue', continue: 'pause', archive: 'restore', restore: 'archive' };
/** Milliseconds in which the same request is the same attempt. */
const AGAIN = 60_000;
const newKey = () => [...crypto.getRandomValues(new Uint32Array(4))].map((part) => part.toString(36)).join('-');

/** Forgets the key of a request that was answered, `what` to `path`, and those of what it undoes. */
function answered(path, what) {
  const [, place, verb] = /^(.*\/)([^/]*)$/.exec(path);
  unanswered.delete(what);
  if (UNDOES[verb]) for (const [other, { path: at }] of unanswered) if (at === place + UNDOES[verb]) unanswered.delete(other);
}

/** Sends a request that changes something. A POST whose answer is lost is sent again, and done once. */
export async function send(method, path, body = {}, headers = {}) {
  const isText = typeof body === 'string', said = isText ? body : JSON.stringify(body);
  const what = `${path} ${said}`, isOnce = method === 'POST', before = unanswered.get(what);
  const key = before && Date.now() - before.at < AGAIN ? before.key : newKey();
  const sent = { method, headers: { 'content-type': isText ? 'text/markdown' : 'application/json', ...(isOnce ? { 'idempotency-key': key } : {}), ...headers }, body: said };
  const ask = async () => (await raw(below(path), sent)).json();
  try {
    const answer = await ask().catch((error) => { if (isOnce && isGone(error)) return ask(); throw error; });
    // The same words sent after it are something else.
    answered(path, what);
    return answer;
  } catch (error) {
    isOnce && isGone(error) ? unanswered.set(what, { key, at: Date.now(), path }) : answered(path, what);
    throw error;
  }
}
export const post = (path, body) => send('POST', path, body);

/** Reads from a stream, which is dead if nothing comes for long. */
async function heard(reader) {
  let timer;
  const late = new Promise((_, fail) => { timer = setTimeout(() => fail(new TypeError('the stream is silent')), SILENT); });
  try { return await Promise.race([reader.read(), late]); } finally { clearTimeout(timer); }
}

/** Splits a byte stream into messages. */
async function* messages(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  // The pieces of an incomplete message, joined once at its end, and a newline that may be the first half of that end.
  let pieces = [], half = '';
  for (;;) {
    const { value, done } = await heard(reader);
    if (done) return;
    const parts = (half + value).split('\n\n'), rest = parts.pop();
    half = rest.endsWith('\n') ? '\n' : '';
    for (const part of parts) {
      const message = { event: 'message', data: '' };
      for (const line of [...pieces.splice(0), part].join('').split('\n')) {
        const field = /^(id|event|data): ?(.*)$/.exec(line);
        if (field) message[field[1]] = field[1] === 'data' && message.data ? `${message.data}\n${field[2]}` : field[2];
      }
      if (message.data) yield message;
    }
    pieces.push(half ? rest.slice(0, -1) : rest);
  }
}

const seen = (signal) => new Promise((done) => {
  if (!document.hidden) return done();
  const look = () => { if (!document.hidden || signal.aborted) { document.removeEventListener('visibilitychange', look); done(); } };
  document.addEventListener('visibilitychange', look);
  signal.addEventListener('abort', look);
});

/**
 * Calls `hear(event, data, id)` for the events at `path` after `after`, until `signal` aborts or `hear` returns
 * `false`. A broken connection resumes after the last id or, with `isAnew`, with new events only. `fresh` is called on
 * every connect.
 */
export async function follow(path, { after, signal, hear, fresh = () => {}, isAnew = false }) {
  let last = after, failures = 0;
  while (!signal.aborted) {
    await seen(signal);
    if (signal.aborted) return;
    const rest = new AbortController();
    const stop = () => { if (document.hidden || signal.aborted) rest.abort(); };
    document.addEventListener('visibilitychange', stop);
    signal.addEventListener('abort', stop);
    try {
      if (isAnew) last = after;
      const headers = last === undefined ? {} : { 'last-event-id': String(last) };
      const answer = await raw(below(path), { headers, signal: rest.signal, isStream: true });
      connection(true);
      fresh();
      for await (const { event, data, id } of messages(answer.body)) {
        // The event for a problem has no id.
        if (id !== undefined) [last, failures] = [id, 0];
        if (hear(event, JSON.parse(data), id) === false) return;
      }
      failures += 1;
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Refusal && error.status < 500 && error.status !== 429) throw error;
      if (!rest.signal.aborted) { failures += 1; connection(false, error); }
    } finally {
      document.removeEventListener('visibilitychange', stop);
      signal.removeEventListener('abort', stop);
      rest.abort();
    }
    if (failures > 0) await new Promise((done) => setTimeout(done, PAUSES[Math.min(failures, PAUSES.length) - 1]));
  }
}

/**
 * Milliseconds between a commit and the refresh, at least between two refreshes, and before the refresh for commits
 * that may not concern the view.
 */
const AT_ONCE = 400, APART = 1000, ELSEWHERE = 2000;

/**
 * Calls `again` now and after commits to the space, at most once a second; also every few seconds while `isOwed()`
 * says that something may change without a commit, or if the last call was `most` milliseconds ago. `concerns(commit)`
 * says whether a commit concerns the view: if `false`, the refresh comes later, and if `null`, not at all. Later
 * errors are shown at the top of the page.
 */
export function live(again, signal, { isOwed = () => false, most = Infinity, concerns = ({ changes }) => changes.length > 0 } = {}) {
  let timer = null, due = Infinity, last = 0, isLooking = false, isAsked = false;
  const now = async () => {
    [timer, due] = [null, Infinity];
    if (isLooking) { isAsked = true; return; }
    isLooking = true;
    last = Date.now();
    try { await patiently(again, signal, { waits: isBusy }); } catch (error) { if (isGone(error)) connection(false); else if (!signal.aborted) throw error; } finally {
      isLooking = false;
      // Also if this refresh failed: what it was requested for meanwhile is not shown yet.
      if (isAsked) { isAsked = false; later(); }
    }
  };
  const say = (error) => { if (!signal.aborted) $('connection').textContent = error.message; };
  const later = (pause = AT_ONCE) => {
    const at = Math.max(Date.now() + pause, last + APART);
    if (signal.aborted || at >= due) return;
    clearTimeout(timer);
    due = at;
    timer = setTimeout(() => now().catch(say), at - Date.now());
  };
  const hear = (event, data) => {
    const isMine = event === 'commit' ? concerns(data) : true;
    if (isMine !== null) later(isMine ? AT_ONCE : ELSEWHERE);
  };
  const beat = setInterval(() => { if (!document.hidden && (isOwed() || Date.now() - last >= most)) later(); }, QUIET);
  signal.addEventListener('abort', () => { clearTimeout(timer); clearInterval(beat); });
  // Each connect triggers a refresh, since commits may have been missed.
  follow('/events', { signal, hear, fresh: () => later(), isAnew: true }).catch(say);
  return now();
}

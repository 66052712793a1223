// What is asked of the server: one answer, or what happens as it happens. With the token of this tab, if one is demanded.
//
// Streams are read with fetch and not with EventSource, which cannot send a token. They rest while nobody looks at the tab: a
// browser opens six connections to one server and no more, however many tabs there are.

import { heardAt } from './clock.js';
import { $ } from './dom.js';

const KEY = 'folio.token';
/** What a token is made of. A browser sends no header with other letters, which would look as if the server were gone. */
const TOKEN = /^[\x21-\x7e]+$/;
/** Milliseconds between attempts to reach a server that is gone; the last holds on. */
const PAUSES = [300, 600, 1200, 2500, 5000];
/** Milliseconds after which is looked again for what no event tells. */
export const QUIET = 5000;
/** Milliseconds within which somebody comes to drive what was begun or continued. */
export const CHANCE = 8000;
let space = null;
let asking = null;

export class Refusal extends Error {
  constructor(problem, status) {
    super(problem.detail || problem.title || `the server answered ${status}`);
    Object.assign(this, { status, code: problem.code, hints: problem.hints ?? [] });
  }
}

const isGone = (error) => error instanceof TypeError;
/** Whether a refusal is one of now: so many ask, or the store does not answer. What takes too long takes too long the next time as well. */
export const isBusy = (error) => error instanceof Refusal && (error.status === 429 || error.status === 503) && error.code !== 'too_slow';
/** Whether what went wrong passes by itself, so that the same is asked for once more. */
export const passes = (error) => isGone(error) || isBusy(error);
/** What to tell people of an error. */
export const told = (error) => (isGone(error) ? Object.assign(new Error('The server is not responding.'), { gone: true }) : error);

/** Says whether the server answers, and if not, because of what `error`. */
export function connection(is, error) {
  const isThere = error instanceof Refusal;
  document.body.classList.toggle('gone', !is && !isThere);
  $('connection').textContent = is ? '' : isThere ? `The server is temporarily unavailable (${error.message}). Retrying…` : 'No connection to the server. Retrying…';
  if (is) for (const said of document.querySelectorAll('.trouble.away')) said.remove();
}

/** Asks for a token, once for all who wait for it. */
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

async function raw(path, options = {}) {
  for (;;) {
    const token = tokenOf();
    const headers = { ...options.headers, ...(token ? { authorization: `Bearer ${token}` } : {}) };
    const answer = await fetch(path, { ...options, headers });
    heardAt(answer.headers.get('date'));
    if (answer.ok) return answer;
    const problem = await answer.json().catch(() => ({}));
    // A token that opens another space is of no use here: as one that opens nothing, another is asked for.
    if (answer.status !== 401 && problem.code !== 'token_of_another_space') throw new Refusal(problem, answer.status);
    await unlock(token ? problem.detail : 'This server requires an access token.');
  }
}

const below = (path) => `/v1/spaces/${encodeURIComponent(space)}${path}`;

/**
 * What `ask` gives, as soon as the server is there and answers; what goes wrong otherwise is thrown, and everything when it `isOver`. `waits` says
 * which errors are waited out.
 */
export async function patiently(ask, signal, { isOver = () => false, waits = passes } = {}) {
  for (let attempt = 0; ; attempt++) {
    try {
      const given = await ask();
      connection(true);
      return given;
    } catch (error) {
      if (!waits(error) || signal?.aborted || isOver()) {
        // It was answered, whatever the answer is.
        if (error instanceof Refusal && !isBusy(error)) connection(true);
        throw error;
      }
      connection(false, error);
      // Who has too much to do wants a second.
      const at = attempt + (isBusy(error) ? 2 : 0);
      await new Promise((done) => setTimeout(done, PAUSES[Math.min(at, PAUSES.length - 1)]));
      if (signal) await seen(signal);
      if (signal?.aborted || isOver()) throw error;
    }
  }
}

/** Learns which space is served, unless that is known, and names it; waits until the server is there. */
export async function begin() {
  if (space !== null) return space;
  const { items: [served] } = await patiently(async () => (await raw('/v1/spaces')).json());
  space = served.space;
  return space;
}

/** A path with the fields of a query; those without a value are left out. */
export function query(path, fields) {
  const wanted = Object.entries(fields).filter(([, value]) => value !== '' && value !== null && value !== undefined && value !== false);
  return wanted.length ? `${path}?${new URLSearchParams(wanted)}` : path;
}

/** What is at a path below the space. */
export async function get(path, { as = 'json', signal } = {}) {
  const answer = await raw(below(path), { signal });
  if (as === 'answer') return { body: await answer.json(), etag: answer.headers.get('etag') };
  return answer[as]();
}

/** Has something done. */
export async function send(method, path, body = {}, headers = {}) {
  const isText = typeof body === 'string';
  const type = { 'content-type': isText ? 'text/markdown' : 'application/json' };
  const answer = await raw(below(path), { method, headers: { ...type, ...headers }, body: isText ? body : JSON.stringify(body) });
  return answer.json();
}
export const post = (path, body) => send('POST', path, body);

/** Parts a stream of bytes into messages. */
async function* messages(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  // Of a message whose end has not come: its pieces, put together once, and the end of a line that may be the first half of its end.
  let pieces = [], half = '';
  for (;;) {
    const { value, done } = await reader.read();
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
 * Tells `hear(event, data, id)` what happens at `path` after `after`, until `signal` says that nobody wants to know or `hear`
 * gives `false`. A connection that breaks goes on with the last id, or, with `isAnew`, with what happens then. `fresh` is called whenever it is there.
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
      const answer = await raw(below(path), { headers, signal: rest.signal });
      connection(true);
      fresh();
      for await (const { event, data, id } of messages(answer.body)) {
        // That it cannot be told has no id.
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

/** Milliseconds between a commit and the look at what it changed, at least between two looks, and for commits that may concern something else. */
const AT_ONCE = 400, APART = 1000, ELSEWHERE = 2000;

/**
 * Calls `again` now and after the commits to the space, not more often than once in a second, and every few seconds while `isOwed()` says that
 * something may change without a commit, or when nobody has looked for `most` milliseconds. `concerns(commit)` says whether a commit is one of
 * what is shown: of others is heard later, and of those for which it gives `null` nothing. What goes wrong later is said above.
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
      // Also if this look was refused: what it was asked for meanwhile is not on the page.
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
  // What was missed is looked at in any case.
  follow('/events', { signal, hear, fresh: () => later(), isAnew: true }).catch(say);
  return now();
}

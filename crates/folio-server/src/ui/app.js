// Shows the view that the address names. Links between views do not reload the page.

import { begin, patiently, told } from './ask.js';
import { $, address, announce, element, isPlain, trouble, unsure, waiting } from './dom.js';
import { tick } from './format.js';
import { showObservation } from './observation.js';
import { showObservations } from './observations.js';
import { showPage } from './page.js';
import { isChanged, mayLeave } from './plan.js';
import { isAnswering, mayDrop } from './questions.js';
import { showRun } from './run.js';
import { showRuns } from './runs.js';
import { showSearch } from './search.js';
import { showThread, showThreads } from './threads.js';
import { showTurn } from './turn.js';
import { showTurns } from './turns.js';

/** The views: their addresses, and the navigation entry that each belongs to. */
const PARTS = [
  [/^\/$/, showRuns, '/'],
  [/^\/runs\/([^/]+)$/, showRun, '/'],
  [/^\/observations$/, showObservations, '/observations'],
  [/^\/observations\/([^/]+)$/, showObservation, '/observations'],
  [/^\/threads$/, showThreads, '/threads'],
  [/^\/threads\/([^/]+)$/, showThread, '/threads'],
  [/^\/turns$/, showTurns, '/turns'],
  [/^\/turns\/([^/]+)$/, showTurn, '/turns'],
  [/^\/pages\/([^/]+)$/, showPage, '/'],
  [/^\/search$/, showSearch, '/search'],
];

/** Where the tab keeps how far every view in its history was scrolled. */
const KEPT = 'folio.tops';
const tops = new Map(JSON.parse(sessionStorage.getItem(KEPT) ?? '[]'));
/** How many of them are kept, the latest. */
const MANY = 200;
/** While a view loads, its position is not that at which somebody left it. */
let isLoading = true;

/** The name of the present entry of the history. */
function entry() {
  if (!history.state?.entry) history.replaceState({ ...history.state, entry: `${Date.now()} ${Math.random()}` }, '');
  return history.state.entry;
}
addEventListener('scroll', () => { if (!isLoading) tops.set(entry(), scrollY); }, { passive: true });
addEventListener('pagehide', () => sessionStorage.setItem(KEPT, JSON.stringify([...tops].slice(-MANY))));

/** Shows the view of the address, scrolled to where it was left, if it was. */
async function showAgain() {
  const top = tops.get(entry()) ?? 0;
  await show();
  scrollTo(0, top);
}

let life = new AbortController();
/** Moves within the current view, if the view supports it. */
let move = null;

async function show() {
  life.abort();
  life = new AbortController();
  unsure();
  const { signal } = life;
  const view = $('view');
  const path = location.pathname;
  move = null;
  isLoading = true;
  address.now = path + location.search;
  const [pattern, part, home] = PARTS.find(([known]) => known.test(path)) ?? PARTS[0];
  for (const link of $('nav').querySelectorAll('a')) {
    link.getAttribute('href') === home ? link.setAttribute('aria-current', 'page') : link.removeAttribute('aria-current');
  }
  view.className = '';
  view.replaceChildren();
  const title = (text) => { document.title = text ? `${text} · Folio` : 'Folio'; };
  const wait = waiting(view, () => signal.aborted);
  try {
    const asked = { name: named(pattern.exec(path)?.[1]), query: new URLSearchParams(location.search), signal, title, go, mayGo, onmove: (then) => { move = then; } };
    // If the first request was refused, the next view that somebody goes to tries it again.
    const space = await begin();
    $('space').textContent = `space ${space}`;
    if (signal.aborted) return;
    await patiently(() => part(view, asked), signal);
  } catch (error) {
    if (signal.aborted) return;
    // A view that failed is not requested again on every commit.
    life.abort();
    failed(error, home);
  } finally {
    wait.over();
    // Otherwise the next one is loading already.
    if (!signal.aborted || signal === life.signal) isLoading = false;
  }
}

/** Decodes a name in an address; an invalid one counts as an address that does not exist. */
function named(part) {
  try {
    return part && decodeURIComponent(part);
  } catch {
    throw Object.assign(new Error(`The address contains an invalid name: ${part}`), { status: 404 });
  }
}

/** Shows that the address cannot be shown, with a link back to the list that it belongs to. */
function failed(error, home) {
  const back = $('nav').querySelector(`a[href="${home}"]`);
  const what = { 403: 'Not allowed', 404: 'Not found' }[error.status] ?? 'Something went wrong';
  document.title = `${what} · Folio`;
  $('view').className = 'narrow';
  $('view').replaceChildren(element('h1', {}, what), trouble(told(error)), element('p', { class: 'up' }, element('a', { href: home }, `← ${back.textContent}`)));
}

/** Scrolls to what the address points to within a view, which the view has marked. */
function lead() {
  const led = $('view').querySelector('.led');
  if (led && led.getBoundingClientRect().bottom > innerHeight) led.scrollIntoView({ block: 'center' });
}

/** Whether the current view may be left: asks first if something unsent or unsaved would be lost. */
const mayGo = async () => await mayLeave() && await mayDrop();

/** Goes to an address of this application. */
async function go(to, { replace = false } = {}) {
  tops.set(entry(), scrollY);
  address(to, { push: !replace });
  await show();
  scrollTo(0, 0);
  lead();
  arrive();
}

/** Moves the focus to the view, and announces it to screen readers. */
function arrive() {
  // A view may already have focused a field.
  if (!$('view').contains(document.activeElement)) $('view').focus({ preventScroll: true });
  announce(document.title);
}

document.addEventListener('click', async (event) => {
  const link = event.target.closest?.('a[href]');
  if (!link || event.defaultPrevented || !isPlain(event)) return;
  const url = new URL(link.href);
  if (url.origin !== location.origin || link.target || !PARTS.some(([known]) => known.test(url.pathname))) return;
  event.preventDefault();
  // A link to a place in the current view, which stays as it is.
  if (link.getAttribute('href').startsWith('#')) { $(url.hash.slice(1))?.focus(); return; }
  if (await mayGo()) await go(url.pathname + url.search + url.hash);
});
history.scrollRestoration = 'manual';
addEventListener('popstate', async () => {
  const to = location.pathname + location.search;
  unsure();
  const isWithin = move && location.pathname === address.now.split('?')[0];
  if (isChanged() || (!isWithin && isAnswering())) {
    // Stays where somebody is writing until they discard it.
    address(address.now, { push: true });
    if (await mayGo()) await go(to);
    return;
  }
  if (isWithin) {
    address.now = to;
    move(new URLSearchParams(location.search));
    return;
  }
  await showAgain();
  arrive();
});
addEventListener('beforeunload', (event) => { if (isChanged() || isAnswering()) event.preventDefault(); });
setInterval(() => { if (!document.hidden) tick(); }, 1000);

await showAgain();
lead();

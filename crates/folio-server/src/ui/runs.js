// The list of runs.

import { CHANCE, get, live } from './ask.js';
import { now } from './clock.js';
import { address, element, empty, keepStill, row, settle, soon, written } from './dom.js';
import { MOST, kept, latest, shownPart } from './filters.js';
import { cost, mark, moment, number, span, words } from './format.js';

/** What the list can be filtered by. `asks` is no status: it stands for the running ones that wait for somebody. */
const STATUSES = ['asks', 'running', 'ok', 'partial', 'failed', 'cancelled', 'forgotten'];
/** How many runs are shown at first, and added with every "more". */
const MANY = 50;
/** How many runs are requested at a time, if the list does not give their cost and whether they wait for somebody. */
const ASKED = 8;
/**
 * The known costs and questions of runs, as of the ends of their journals at that time; the least recently requested
 * comes first.
 */
const facts = new Map();

export async function showRuns(view, { query: asked, signal, title }) {
  title('Runs');
  view.className = 'narrow';
  const wanted = new Set(asked.getAll('status').filter((status) => STATUSES.includes(status)));
  let text = asked.get('text') ?? '';
  const limit = kept('limit', MANY);
  const shown = shownPart(limit, (run) => run.handle);
  const list = element('ul', { class: 'cards' });
  const note = element('div');
  const readdress = () => {
    const fields = new URLSearchParams([...wanted].map((status) => ['status', status]));
    if (text) fields.set('text', text);
    address(fields.size ? `/?${fields}` : '/', { state: history.state });
  };
  const choices = STATUSES.map((status) => element('button', {
    type: 'button', class: 'chip', 'aria-pressed': String(wanted.has(status)),
    onclick: ({ currentTarget }) => {
      wanted.has(status) ? wanted.delete(status) : wanted.add(status);
      currentTarget.setAttribute('aria-pressed', String(wanted.has(status)));
      readdress();
      shown.anew();
      draw().catch(() => {});
    },
  }, mark(status), words(status)));
  const field = element('input', {
    type: 'search', 'aria-label': 'Filter runs by title', placeholder: 'Filter by title', value: text,
    oninput: ({ currentTarget }) => { text = currentTarget.value; readdress(); sift(); if (text && next && limit.value < MOST) laterDraw(); },
  });
  view.append(element('h1', {}, 'Runs'), element('div', { class: 'filters', role: 'group', 'aria-label': 'Filter runs' }, field, ...choices), list, note);

  let known = [], next = null;
  /** The ends of the journals of runs, and the runs that have not ended. */
  let heads = new Map(), going = new Set();
  /** The runs that are visible. */
  const seen = new Set();
  const watcher = new IntersectionObserver((cards) => {
    for (const { target, isIntersecting } of cards) isIntersecting ? seen.add(target.dataset.key) : seen.delete(target.dataset.key);
    laterAsk();
  }, { rootMargin: '200px' });
  signal.addEventListener('abort', () => watcher.disconnect());
  // Runs that no process came to drive: a request from here does not bring one.
  const left = new Set();
  const isTakenUp = ({ handle, status, driven }, writtenAt) => {
    if (status !== 'running' || driven) { left.delete(handle); return false; }
    const isNew = !left.has(handle) && now() - Date.parse(writtenAt) < CHANCE;
    const { paused, waits } = facts.get(handle) ?? {};
    if (!isNew && !paused && !waits) left.add(handle);
    return isNew;
  };
  const sift = () => {
    const runs = known.filter((run) => run.title.toLowerCase().includes(text.toLowerCase()) || run.handle === text)
      .filter((run) => !wanted.has('asks') || wanted.has(run.status) || (run.status === 'running' && facts.get(run.handle)?.asks > 0))
      .map((run) => ({ ...run, used: facts.get(run.handle)?.used, paused: facts.get(run.handle)?.paused, waits: facts.get(run.handle)?.waits, asks: run.status === 'running' ? facts.get(run.handle)?.asks : 0 }));
    keepStill(list, runs, (run) => run.handle, card);
    for (const one of list.children) watcher.observe(one);
    const more = element('button', { type: 'button', onclick: () => { limit.value = Math.min(MOST, known.length + MANY); draw().catch(() => {}); } }, 'Show older');
    const isFiltered = wanted.size > 0 || text !== '';
    const nothing = isFiltered ? empty(next ? `No matches among the newest ${number(known.length)} runs. Change or clear the filters.` : 'No matching runs. Change or clear the filters.') : empty('No runs yet. Start one with', 'folio plan example | folio run --plan - --input repo=.');
    settle(note, [...(runs.length === 0 ? [nothing] : []), ...(next && !text && known.length < MOST ? [more] : [])]);
  };
  const look = latest({
    signal,
    ask: () => {
      // A run with this title may be far back.
      const fields = new URLSearchParams({ limit: String(text ? MOST : shown.ask()) });
      for (const status of new Set([...wanted].map((one) => (one === 'asks' ? 'running' : one)))) fields.append('status', status);
      return get(`/runs?${fields}`, { signal });
    },
    show(answer) {
      // A run with this title may be the last of those that are searched.
      const runs = text ? answer.items : shown.part(answer.items);
      heads = new Map(runs.map((run) => [run.handle, run.head]));
      going = new Set(runs.filter((run) => run.status === 'running').map((run) => run.handle));
      for (const run of runs) if (run.spent) facts.set(run.handle, factOf(run, run.head));
      known = runs.map(({ updated_at: at, head, ...run }) => ({ ...run, ended_at: run.status === 'running' ? null : at, isNew: isTakenUp(run, at) }));
      next = answer.next ?? (runs.length < answer.items.length || null);
      sift();
    },
    refused(why) {
      list.replaceChildren();
      note.replaceChildren(why);
    },
  });
  // The questions and cost of a run change only with its journal. The list includes them, except for runs whose last
  // event was written by an older version. Of those, the unknown ones are all requested if they have not ended or are
  // visible; of the others some, the least recently requested first.
  const askAll = async () => {
    const tried = new Set();
    const isOwed = (handle) => heads.has(handle) && facts.get(handle)?.head !== heads.get(handle) && !tried.has(handle) && (going.has(handle) || seen.has(handle));
    const askSome = async (some) => {
      await Promise.all(some.map(async (handle) => {
        const head = heads.get(handle);
        tried.add(handle);
        const fact = await get(`/runs/${handle}`, { signal }).then((run) => factOf(run, head), (error) => (error.status === 403 || error.status === 404 ? { head } : null));
        if (!fact) return;
        facts.delete(handle);
        facts.set(handle, fact);
      }));
      sift();
    };
    const some = (handles) => handles.filter(isOwed).slice(0, ASKED);
    const first = () => some([...heads.keys()].filter((handle) => !facts.has(handle)));
    for (let owed = first(); owed.length > 0 && !signal.aborted; owed = first()) await askSome(owed);
    const again = some([...facts.keys()]);
    if (again.length > 0 && !signal.aborted) await askSome(again);
  };
  let asking = null;
  const ask = () => (asking ??= askAll().finally(() => { asking = null; }));
  const laterAsk = soon(() => { if (!signal.aborted) ask().catch(() => {}); }, 100);
  const draw = async () => { await look(); await ask(); };
  const laterDraw = soon(() => draw().catch(() => {}), 200);
  // No commit reports that a run is no longer driven.
  await live(draw, signal, { isOwed: () => going.size > 0 });
}

const factOf = ({ asks, paused, waits, spent }, head) => ({ asks, paused, waits, used: cost(spent), head });

function card(run) {
  const state = run.status !== 'running' ? run.status : run.paused ? 'paused' : run.driven || run.waits ? (run.asks ? 'asks' : 'running') : run.isNew ? 'taken_up' : 'interrupted';
  const took = run.ended_at ? ` after ${span(Date.parse(run.ended_at) - Date.parse(run.created_at))}` : '';
  const title = written('span', { class: 'title' }, run.title || words(state));
  const asks = run.asks ? element('span', { class: 'badge' }, run.asks === 1 ? 'waiting for you' : `waiting for you (${run.asks})`) : null;
  const standing = state === 'asks' ? null : element('span', { class: state }, words(state));
  const about = element('span', { class: 'meta' }, `${run.handle} · `, ...(run.fork_of ? [`fork of ${run.fork_of}${run.fork_at ? ` at ${run.fork_at}` : ''} · `] : []), ...(standing ? [standing, `${took} · `] : []), `${run.used ? `${run.used} · ` : ''}`, moment(run.created_at));
  return element('li', {}, row(`run-${run.handle}`, `/runs/${run.handle}`, [mark(state), title, asks, about], { called: [title, asks, standing], about }));
}

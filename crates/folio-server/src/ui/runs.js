// The list of runs.

import { get, live } from './ask.js';
import { element, empty, keep, settle, soon, written } from './dom.js';
import { latest } from './filters.js';
import { mark, moment, number, span, words } from './format.js';

const STATUSES = ['running', 'ok', 'partial', 'failed', 'cancelled', 'skipped'];
/** Runs that are shown at first, and with every "more". */
const MANY = 50;
/** Runs that are shown at most, and looked through for a title. */
const MOST = 1000;
/** Runs that are asked at a time whether they wait for somebody. */
const ASKED = 8;

export async function showRuns(view, { query: asked, signal, title }) {
  title('Runs');
  view.className = 'narrow';
  const wanted = new Set(asked.getAll('status'));
  let text = asked.get('text') ?? '', limit = MANY;
  const list = element('ul', { class: 'cards' });
  const note = element('div');
  const address = () => {
    const fields = new URLSearchParams([...wanted].map((status) => ['status', status]));
    if (text) fields.set('text', text);
    history.replaceState(null, '', fields.size ? `/?${fields}` : '/');
  };
  const choices = STATUSES.map((status) => element('button', {
    type: 'button', class: 'chip', 'aria-pressed': String(wanted.has(status)),
    onclick: ({ currentTarget }) => {
      wanted.has(status) ? wanted.delete(status) : wanted.add(status);
      currentTarget.setAttribute('aria-pressed', String(wanted.has(status)));
      address();
      draw().catch(() => {});
    },
  }, mark(status), words(status)));
  const field = element('input', {
    type: 'search', 'aria-label': 'Only runs with this in their title', placeholder: 'in the title', value: text,
    oninput: ({ currentTarget }) => { text = currentTarget.value; address(); sift(); if (text && next && limit < MOST) laterDraw(); },
  });
  view.append(element('h1', {}, 'Runs'), element('div', { class: 'filters', role: 'group', 'aria-label': 'Which runs' }, field, ...choices), list, note);

  let known = [], next = null, turn = 0;
  /** Of the runs that go on: where their journals end, and what they asked when that was at `head`. */
  let heads = new Map();
  const asks = new Map();
  const sift = () => {
    const runs = known.filter((run) => run.title.toLowerCase().includes(text.toLowerCase()) || run.handle === text)
      .map((run) => ({ ...run, asks: run.status === 'running' ? asks.get(run.handle)?.count : 0 }));
    keep(list, runs, (run) => run.handle, card);
    const more = element('button', { type: 'button', onclick: () => { limit += MANY; draw().catch(() => {}); } }, 'Older ones');
    const isFiltered = wanted.size > 0 || text !== '';
    const nothing = isFiltered ? empty(next ? `None of the newest ${number(known.length)} is like that.` : 'No run is like that.') : empty('No runs yet. One is started with', 'folio run --plan FILE');
    settle(note, [...(runs.length === 0 ? [nothing] : []), ...(next && !text && limit < MOST ? [more] : [])]);
  };
  const look = latest({
    signal,
    ask: () => {
      // What has the title may be far back.
      const fields = new URLSearchParams({ limit: String(text ? MOST : limit) });
      for (const status of wanted) fields.append('status', status);
      return get(`/runs?${fields}`, { signal });
    },
    show(answer) {
      heads = new Map(answer.items.filter((run) => run.status === 'running').map((run) => [run.handle, run.head]));
      known = answer.items.map(({ updated_at, head, ...run }) => ({ ...run, ended_at: run.status === 'running' ? null : updated_at }));
      next = answer.next;
      sift();
    },
    refused(why) {
      list.replaceChildren();
      note.replaceChildren(why);
    },
  });
  // What a run asks changes with its journal only. Those of which nothing is known are all asked; of the others some, who was asked
  // longest ago first.
  const ask = async () => {
    const owed = [...heads].filter(([handle, head]) => asks.get(handle)?.head !== head);
    const [again, first] = [[], []];
    for (const one of owed) (asks.has(one[0]) ? again : first).push(one);
    again.sort(([a], [b]) => asks.get(a).at - asks.get(b).at);
    const wanting = [...first, ...again.slice(0, ASKED)];
    for (let from = 0; from < wanting.length && !signal.aborted; from += ASKED) {
      await Promise.all(wanting.slice(from, from + ASKED).map(async ([handle, head]) => {
        const count = await get(`/runs/${handle}/questions`, { signal }).then(({ items }) => items.length, (error) => (error.status < 500 ? 0 : null));
        if (count !== null) asks.set(handle, { head, at: ++turn, count });
      }));
      sift();
    }
  };
  const draw = async () => { await look(); await ask(); };
  const laterDraw = soon(() => draw().catch(() => {}), 200);
  // That nobody drives a run any more is no commit.
  await live(draw, signal, () => heads.size > 0);
}

function card(run) {
  const state = run.status === 'running' && !run.driven ? 'interrupted' : run.status;
  const took = run.ended_at ? ` after ${span(Date.parse(run.ended_at) - Date.parse(run.created_at))}` : '';
  return element('li', {}, element('a', { href: `/runs/${run.handle}`, class: 'card' }, mark(state),
    written('span', { class: 'title' }, run.title),
    run.asks ? element('span', { class: 'badge' }, run.asks === 1 ? 'asks you' : `asks you ${run.asks} things`) : null,
    element('span', { class: 'meta' }, `${run.handle} · `, element('span', { class: state }, words(state)), `${took} · `, moment(run.created_at))));
}

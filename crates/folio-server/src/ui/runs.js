// The list of runs.

import { get, live, query, told } from './ask.js';
import { element, empty, keep, trouble } from './dom.js';
import { mark, moment, span, words } from './format.js';

const STATUSES = ['running', 'ok', 'partial', 'failed', 'cancelled', 'skipped'];
/** Runs that are shown at first, and with every "more". */
const MANY = 50;
/** Runs that are asked, each time, whether they wait for somebody. */
const ASKED = 8;

export async function showRuns(view, { query: asked, signal, title, go }) {
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
      draw();
    },
  }, mark(status), words(status)));
  const field = element('input', {
    type: 'search', 'aria-label': 'Only runs with this in their title', placeholder: 'in the title', value: text,
    oninput: ({ currentTarget }) => { text = currentTarget.value; address(); sift(); },
  });
  view.append(element('h1', {}, 'Runs'), element('div', { class: 'filters', role: 'group', 'aria-label': 'Which runs' }, field, ...choices), list, note);

  let known = [], next = null;
  const sift = () => {
    const runs = known.filter((run) => run.title.toLowerCase().includes(text.toLowerCase()) || run.handle === text);
    keep(list, runs, (run) => run.handle, card);
    const more = element('button', { type: 'button', onclick: () => { limit += MANY; draw(); } }, 'Older ones');
    const isFiltered = wanted.size > 0 || text !== '';
    const nothing = isFiltered ? empty('No run is like that.') : empty('No runs yet. One is started with', 'folio run --plan FILE');
    note.replaceChildren(...(runs.length === 0 ? [nothing] : []), ...(next && limit < 1000 ? [more] : []));
  };
  const draw = async () => {
    const fields = new URLSearchParams({ limit: String(limit) });
    for (const status of wanted) fields.append('status', status);
    const answer = await get(`/runs?${fields}`, { signal });
    const items = answer.items.map(({ updated_at, head, ...run }) => ({ ...run, ended_at: run.status === 'running' ? null : updated_at }));
    const alive = items.filter((run) => run.status === 'running').slice(0, ASKED);
    await Promise.all(alive.map(async (run) => {
      run.asks = (await get(`/runs/${run.handle}/questions`, { signal }).catch(() => ({ items: [] }))).items.length;
    }));
    [known, next] = [items, answer.next];
    sift();
  };
  await live(draw, signal).catch((error) => { note.replaceChildren(trouble(told(error))); });
}

function card(run) {
  const state = run.status === 'running' && !run.driven ? 'interrupted' : run.status;
  const took = run.ended_at ? ` after ${span(Date.parse(run.ended_at) - Date.parse(run.created_at))}` : '';
  return element('li', {}, element('a', { href: `/runs/${run.handle}`, class: 'card' }, mark(state),
    element('span', { class: 'title' }, run.title),
    run.asks ? element('span', { class: 'badge' }, run.asks === 1 ? 'asks you' : `asks you ${run.asks} things`) : null,
    element('span', { class: 'meta' }, `${run.handle} · `, element('span', { class: state }, words(state)), `${took} · `, moment(run.created_at))));
}

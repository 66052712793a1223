// Search in all of memory.

import { get, live, query as addressOf } from './ask.js';
import { element, empty, keep, settle, soon, written } from './dom.js';
import { filters, kept, latest } from './filters.js';
import { moment, number } from './format.js';
import { kindOf } from './observations.js';

const KINDS = ['observation', 'note', 'todo', 'task', 'goal', 'pending_action', 'summary'];
const plural = (kind) => `${kind.replaceAll('_', ' ').replace(/y$/, 'ie')}s`;
const MANY = 30;

export async function showSearch(view, { query, signal, title }) {
  title('Search');
  view.className = 'narrow';
  const limit = kept('limit', MANY);
  const list = element('ul', { class: 'cards' }), count = element('p', { class: 'meta', role: 'status' }), note = element('div');
  const later = soon(() => draw().catch(() => {}), 200);
  const { wanted, change } = filters(query, () => { limit.value = MANY; later(); });
  const field = element('input', { type: 'search', dir: 'auto', 'aria-label': 'Search memory', placeholder: 'Search memory', class: 'large', value: wanted.q ?? '', autocomplete: 'off', oninput: (event) => change('q', event.currentTarget.value.trim()) });
  view.append(element('h1', {}, 'Search'),
    element('form', { class: 'filters', role: 'search', onsubmit: (event) => { event.preventDefault(); later(); } }, field,
      element('select', { 'aria-label': 'Kind', onchange: (event) => change('kind', event.currentTarget.value) }, element('option', { value: '' }, 'Everything'),
        ...KINDS.map((kind) => element('option', { value: kind, selected: wanted.kind === kind }, plural(kind)))),
      element('label', {}, element('input', { type: 'checkbox', checked: wanted.all === 'true', onchange: (event) => change('all', event.currentTarget.checked ? 'true' : '') }), ' Include archived and expired')),
    count, list, note);
  field.focus();
  const draw = latest({
    signal,
    ask: async () => (wanted.q ? get(addressOf('/search', { ...wanted, limit: limit.value }), { signal }) : null),
    show(found) {
      if (!found) { count.textContent = ''; list.replaceChildren(); note.replaceChildren(empty('Enter words to search the titles, texts and tags of observations, notes, todos, tasks and summaries.')); return; }
      const some = found.some_words ? '. Nothing has all of the words; these have some of them.' : '';
      count.textContent = found.total === 0 ? '' : `${found.at_least ? 'at least ' : ''}${number(found.total)} found${some}`;
      keep(list, found.items, (one) => one.entry_id, card);
      const more = element('button', { type: 'button', onclick: () => { limit.value = Math.min(1000, limit.value * 2); draw(); } }, 'Show more');
      settle(note, [...(found.returned === 0 ? [empty('No results. Try other or fewer words.')] : []), ...(found.next && limit.value < 1000 ? [more] : [])]);
    },
    refused(why) {
      list.replaceChildren();
      count.textContent = '';
      note.replaceChildren(why);
    },
  });
  await live(draw, signal);
}

function card(one) {
  // The page of a scratchbook redirects to its items; a summary is not an item.
  const to = one.kind === 'observation' ? `/observations/${one.handle}` : `/pages/${one.page_id}${one.kind === 'summary' ? '' : `#${one.handle}`}`;
  return element('li', { class: 'card stack' },
    element('p', { class: 'line' }, one.kind === 'observation' ? kindOf(one) : element('span', { class: 'kind' }, one.kind.replaceAll('_', ' ')),
      one.state === 'live' ? null : element('span', { class: 'badge calm' }, one.state), element('a', { class: 'handle', href: to }, one.handle)),
    written('a', { class: 'content cut', href: to }, one.title ? element('strong', {}, `${one.title} `) : null, ...one.snippet.map((piece) => (piece.hit ? element('mark', {}, piece.text) : piece.text))),
    element('p', { class: 'line meta' }, element('span', {}, moment(one.updated_at)), ...one.tags.map((tag) => written('span', { class: 'tag' }, `#${tag}`))));
}

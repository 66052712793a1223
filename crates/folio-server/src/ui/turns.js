// The list of turns.

import { get, live, query as addressOf } from './ask.js';
import { element, empty, keepStill, row, settle, soon, written } from './dom.js';
import { MOST, filters, kept, latest, shownPart } from './filters.js';
import { marked, moment, span } from './format.js';

const MANY = 50;

export async function showTurns(view, { query, signal, title }) {
  title('Turns');
  view.className = 'narrow';
  const limit = kept('limit', MANY);
  const list = element('ul', { class: 'cards' }), note = element('div');
  const later = soon(() => draw().catch(() => {}), 200);
  const shown = shownPart(limit, (turn) => turn.turn_id);
  const { wanted, change } = filters(query, () => { shown.anew(); later(); });
  view.append(element('h1', {}, 'Turns'), element('p', { class: 'quiet lead' }, 'What came in, what was decided and why, and what was done.'),
    element('form', { class: 'filters', 'aria-label': 'Filter turns', onsubmit: (event) => event.preventDefault() },
      element('input', { type: 'search', 'aria-label': 'Filter by thread', placeholder: 'Thread', value: wanted.thread ?? '', oninput: (event) => change('thread', event.currentTarget.value.trim()) }),
      element('label', {}, element('input', { type: 'checkbox', checked: wanted.open === 'true', onchange: (event) => change('open', event.currentTarget.checked ? 'true' : '') }), ' Only in progress')),
    list, note);
  const draw = latest({
    signal,
    ask: () => get(addressOf('/turns', { ...wanted, limit: shown.ask() }), { signal }),
    show({ items, next }) {
      const part = shown.part(items);
      keepStill(list, part, (turn) => turn.turn_id, card);
      const more = element('button', { type: 'button', onclick: () => { limit.value = Math.min(MOST, part.length + MANY); draw(); } }, 'Show older');
      const nothing = Object.keys(wanted).length ? empty('No matching turns. Change or clear the filters.') : empty('No turns yet. Start one with', 'folio turn begin --input "Rotate the key"');
      settle(note, [...(items.length === 0 ? [nothing] : []), ...((next || part.length < items.length) && part.length < MOST ? [more] : [])]);
    },
    refused(why) {
      list.replaceChildren();
      note.replaceChildren(why);
    },
  });
  await live(draw, signal);
}

function card(turn) {
  const state = turn.ended_at ? (turn.complete ? 'ok' : 'partial') : 'running';
  const took = turn.ended_at ? `took ${span(Date.parse(turn.ended_at) - Date.parse(turn.started_at))}` : 'in progress';
  const [sign, word] = marked(state), title = written('span', { class: 'title' }, turn.input || '(no input)');
  const urgency = turn.urgency ? element('span', { class: `badge ${/critical|high/.test(turn.urgency) ? '' : 'calm'}` }, turn.urgency) : null;
  const about = element('span', { class: 'meta' }, `${turn.handle} · ${turn.thread} · ${took} · `, moment(turn.started_at));
  return element('li', {}, row(`turn-${turn.handle}`, `/turns/${turn.handle}`, [sign, word, title, urgency, about], { called: [word, title, urgency], about }));
}

// The scratch page: the live observations, or those that match the filters.

import { get, live, query as addressOf } from './ask.js';
import { now } from './clock.js';
import { element, empty, keepStill, settle, soon, written } from './dom.js';
import { MOST, filters, kept, latest, shownPart } from './filters.js';
import { meter, moment, number, perCent } from './format.js';

const MANY = 50;
const FIELDS = [
  ['text', 'search', 'Search observations', 'Search'],
  ['type', 'text', 'Type', 'Type'],
  ['tags', 'text', 'Tags (all must match)', 'Tags'],
  ['owner', 'text', 'Owner', 'Owner'],
  ['min_confidence', 'number', 'Minimum confidence, 0 to 1', 'Conf. ≥'],
];
const STATUSES = ['active', 'pending_review', 'resolved', 'archived'];
const ORDERS = [['', 'Newest first'], ['oldest', 'Oldest first'], ['priority', 'Highest priority first']];

export async function showObservations(view, { query, signal, title }) {
  title('Scratch page');
  view.className = 'narrow';
  const limit = kept('limit', MANY);
  const list = element('ul', { class: 'cards' });
  const count = element('p', { class: 'meta', role: 'status' });
  const note = element('div');
  const later = soon(() => draw().catch(() => {}), 200);
  const part = shownPart(limit, (one) => one.observation_id);
  const { wanted, change } = filters(query, () => { part.anew(); later(); });
  // A value that no field offers could not be cleared.
  for (const [name, values] of [['status', STATUSES], ['order', ORDERS.map(([value]) => value)]]) if (wanted[name]?.split(',').some((one) => !values.includes(one))) delete wanted[name];
  const field = ([name, type, label, hint]) => element('input', {
    type, dir: 'auto', 'aria-label': label, placeholder: hint, value: wanted[name] ?? '', class: type === 'number' ? 'short' : null,
    ...(type === 'number' ? { min: 0, max: 1, step: 0.05 } : {}), oninput: (event) => change(name, event.currentTarget.value.trim()),
  });
  const select = (name, label, options) => element('select', { 'aria-label': label, onchange: (event) => change(name, event.currentTarget.value) },
    ...options.map(([value, text]) => element('option', { value, selected: (wanted[name] ?? '') === value }, text)));
  const expired = element('input', { type: 'checkbox', checked: wanted.include_expired === 'true', onchange: (event) => change('include_expired', event.currentTarget.checked ? 'true' : '') });
  const form = element('form', { class: 'filters', role: 'search', 'aria-label': 'Filter observations', onsubmit: (event) => event.preventDefault() },
    ...FIELDS.map(field),
    select('status', 'Status', [['', 'Any status'], ...STATUSES.map((status) => [status, status.replaceAll('_', ' ')])]),
    select('order', 'Order', ORDERS),
    element('label', {}, expired, ' Include expired'));
  view.append(element('h1', {}, 'Scratch page'), element('p', { class: 'quiet lead' }, 'Current observations of tools, models and people.'), form, count, list, note);

  let known = [];
  const draw = latest({
    signal,
    ask: () => get(addressOf('/observations', { ...wanted, ...asWritten(wanted), limit: part.ask() }), { signal }),
    show(answer) {
      known = part.part(answer.items);
      count.textContent = `${answer.at_least ? 'at least ' : ''}${number(answer.total)} in total${known.length < answer.total ? `, ${number(known.length)} shown` : ''}`;
      keepStill(list, known, (one) => one.observation_id, card);
      const more = element('button', { type: 'button', onclick: () => { limit.value = Math.min(MOST, known.length + MANY); draw(); } }, 'Show more');
      const isFiltered = Object.keys(wanted).length > 0;
      const nothing = isFiltered ? empty('No matching observations. Change or clear the filters.') : empty('No observations yet. Add one with', 'folio observe add "The tests need a database" --tag tests');
      settle(note, [...(answer.returned === 0 ? [nothing] : []), ...((answer.next || known.length < answer.returned) && known.length < MOST ? [more] : [])]);
      count.hidden = answer.returned === 0;
    },
    refused(why) {
      list.replaceChildren();
      count.textContent = '';
      note.replaceChildren(why);
    },
  });
  await live(draw, signal, { isOwed: () => known.some(isOver) });
}

/** Whether an observation that is shown as live has expired: no commit reports that. */
export const isOver = (one) => one.state === 'live' && Boolean(one.expires_at) && Date.parse(one.expires_at) <= now();

/**
 * Converts types and tags from the form on the cards to the stored form: `risk alert`, `#key`, `key all`. A `\`
 * escapes these characters in a tag.
 */
const asWritten = ({ type = '', tags = '' }) => ({
  type: type.trim().replace(/\s+/g, '_').toLowerCase(),
  tags: (tags.match(/(?:\\,|[^\s,])+/g) ?? []).map((tag) => tag.replace(/^#|^\\(?=#)/, '')).filter(Boolean).join(','),
});

/** The confidence of an observation. */
export const sureness = (one) => (one.confidence === null || one.confidence === undefined ? null
  : element('span', { class: 'sure' }, meter(one.confidence, `${perCent(one.confidence)} confidence`), ` ${perCent(one.confidence)} confidence`));

/** When an observation expires, if nothing else has ended it. */
export const expiry = (one) => (!one.expires_at || !/^(live|expired)$/.test(one.state) || one.erased ? null
  : element('span', { class: one.state === 'expired' ? 'failed' : 'expiry' }, one.state === 'expired' ? 'expired ' : 'expires ', moment(one.expires_at)));

export const tagsOf = (one) => one.tags.map((tag) => tagged(tag, `/observations?tags=${encodeURIComponent(tag.replace(/,|^#/g, '\\$&'))}`));
/** A tag that leads `to` what has it, too. */
export const tagged = (tag, to) => written('a', { class: 'tag', href: to }, `#${tag}`);

export function kindOf(one) {
  const type = one.type ?? 'observation';
  return element('span', { class: `kind ${/alert|risk|conflict/.test(type) ? 'failed' : ''}` }, type.replaceAll('_', ' '));
}

function card(one) {
  const facts = [sureness(one), expiry(one), element('span', {}, `owner: ${one.owner}`), element('span', {}, moment(one.updated_at))].filter(Boolean);
  return element('li', { class: 'card stack' },
    element('p', { class: 'line' }, kindOf(one), one.status !== 'active' && element('span', { class: 'badge calm' }, one.status.replaceAll('_', ' ')),
      one.state === 'expired' && element('span', { class: 'badge calm' }, 'expired'), one.pinned && element('span', { class: 'badge calm' }, 'pinned'),
      element('a', { class: 'handle', href: `/observations/${one.handle}` }, one.handle)),
    written('a', { class: 'content cut', href: `/observations/${one.handle}` }, one.title ? element('strong', {}, `${one.title} `) : null, one.content || '(content erased)'),
    element('p', { class: 'line meta' }, ...facts, ...tagsOf(one)));
}

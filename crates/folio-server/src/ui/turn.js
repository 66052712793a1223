// A turn: its decisions, and its trace as a timeline.

import { get, live, query as addressOf } from './ask.js';
import { element, empty, headline, keep, settle, wide, written } from './dom.js';
import { kept, latest } from './filters.js';
import { absolute, moment, number, span } from './format.js';
import { receiptTable } from './threads.js';

const MANY = 500;
/** The most lines of a trace that are shown at a time: earlier lines then replace them. */
const MOST = 20_000;

export async function showTurn(view, { name, signal, title }) {
  title(`Turn ${name}`);
  const at = `/turns/${encodeURIComponent(name)}`;
  const { heading: head, block: top } = headline(`Turn ${name}`), about = element('p', { class: 'meta' });
  const decided = element('ul', { class: 'decisions' });
  const chips = element('div', { class: 'filters', role: 'group', 'aria-label': 'Filter by component' });
  const line = element('ol', { class: 'timeline', 'aria-label': 'Timeline' }), note = element('div', { class: 'buttons' });
  const receipts = element('div');
  view.append(element('p', { class: 'up' }, element('a', { href: '/turns' }, '← Turns')), top, about, element('h2', {}, 'Decisions'), decided,
    element('h2', {}, 'Timeline'), chips, note, line, element('h2', {}, 'What models were shown'), receipts);
  /**
   * How many lines are shown, of which component, and the cursors of later lines: without one, the newest are shown.
   */
  const limit = kept('limit', MANY), only = kept('only', null), before = kept('before', []);
  /** The components that have written lines. */
  const parts = new Set(only.value ? [only.value] : []);
  let known = null, scale = null;
  const turnTo = (cursors) => { before.value = cursors; return draw(); };
  const choose = (part) => { only.value = part; return turnTo([]); };
  const draw = latest({
    signal,
    ask: () => Promise.all([get(at, { signal }), orRefused(get(addressOf(`${at}/trace`, { component: only.value, limit: limit.value, cursor: before.value.at(-1) }), { signal })), orRefused(get(`${at}/receipts`, { signal }))]),
    show([turn, trace, shown]) {
      known = turn;
      const input = turn.input || `Turn ${turn.handle}`;
      if (head.textContent !== input) head.textContent = input;
      title(turn.input || turn.handle);
      const end = turn.ended_at ? `took ${span(Date.parse(turn.ended_at) - Date.parse(turn.started_at))}${turn.complete === false ? ', incomplete' : ''}` : 'in progress';
      settle(about, [`${turn.handle} · thread `, element('a', { href: `/threads/${encodeURIComponent(turn.thread)}` }, turn.thread), ` · ${end} · `, moment(turn.started_at),
        ...(turn.run_id ? [' · part of ', element('a', { href: `/runs/${turn.run_id}` }, 'a run')] : [])]);
      keep(decided, turn.decisions, (one) => JSON.stringify(one), (one) => decision(one, turn.thread));
      if (turn.decisions.length === 0) decided.replaceChildren(element('li', { 'data-key': '' }, empty('No decisions.')));
      // Stages with decisions, and the turn itself, can be selected before their lines are shown.
      for (const part of ['turn', ...turn.decisions.map(({ stage }) => stage), ...trace.items.map(({ component }) => component)]) parts.add(part);
      keep(chips, parts.size < 2 ? [] : [...parts].sort().map((part) => ({ part, isOnly: only.value === part })), ({ part }) => part, ({ part, isOnly }) => element('button', {
        type: 'button', class: 'chip', 'aria-pressed': String(isOnly), onclick: () => choose(isOnly ? null : part),
      }, part.replaceAll('_', ' ')));
      const begin = Date.parse(turn.started_at);
      const last = Math.max(begin + 1, turn.ended_at ? Date.parse(turn.ended_at) : 0, ...trace.items.map((entry) => Date.parse(entry.timestamp)));
      // While the turn is in progress, there is room for what comes, so that not every line moves with each new one.
      if (turn.ended_at || !scale || last > scale.last) scale = { begin, last: turn.ended_at ? last : begin + (last - begin) * 1.25 };
      keep(line, trace.items, keys(), (entry) => entryRow(entry, begin));
      for (const row of line.children) if (row.scale !== scale) row.place?.(scale);
      // Of a long trace, the end is returned.
      const earlier = !trace.next ? null : () => {
        // An empty part ended with the commits that one answer reads: more lines would be no more commits.
        if (limit.value >= MOST || trace.items.length === 0) return turnTo([...before.value, trace.next]);
        limit.value = Math.min(MOST, limit.value * 4);
        return draw();
      };
      const later = before.value.length === 0 ? null : () => turnTo(before.value.slice(0, -1));
      keep(note, [['Show earlier', earlier], ['Show later', later]].filter(([, then]) => then).map(([text, then]) => ({ text, then, on: trace.next })), ({ text }) => text,
        ({ text, then }) => element('button', { type: 'button', onclick: () => then().catch(() => {}) }, text));
      if (trace.items.length === 0) line.replaceChildren(element('li', { 'data-key': '' }, empty(trace.refused ?? (trace.next ? 'No entries in this part; there may be earlier ones.' : 'No entries yet.'))));
      keep(receipts, shown.items.map((one, at) => ({ ...one, at })), ({ at }) => at, (one) => element('details', { class: 'panel' },
        element('summary', {}, `${one.of}${one.thread ? ` of ${one.thread}` : ''}: ${one.receipt.tokens} of ${one.receipt.budget} tokens, `, moment(one.timestamp)), wide(receiptTable(one.receipt, one.thread ?? turn.thread))));
      if (shown.items.length === 0) receipts.replaceChildren(empty(shown.refused ?? 'No model was shown anything in this turn.'));
    },
  });
  // Only its own commits concern a turn that has ended.
  const concerns = (commit) => commit.turn_id === known?.turn_id || (Boolean(known?.run_id) && commit.run_id === known.run_id) || (known?.ended_at ? null : false);
  await live(draw, signal, { concerns });
}

/**
 * Returns a function that gives the lines of a trace stable keys, wherever the shown part begins: by their content,
 * and equal ones by number.
 */
function keys() {
  const seen = new Map();
  return ({ seq, timestamp, component, operation, node_id: node }) => {
    const name = [seq, timestamp, component, operation, node].join(' '), before = seen.get(name) ?? 0;
    seen.set(name, before + 1);
    return `${name} ${before}`;
  };
}

/** A list that the token may not read is empty, and has the words of the refusal. */
const orRefused = (asked) => asked.catch((error) => {
  if (error.status !== 403) throw error;
  return { items: [], next: null, refused: error.message };
});

/** How many of the entries that a decision used are named at first. */
const NAMED = 10;

function decision(one, thread) {
  const all = one.used ?? [];
  const linksOf = (entries) => entries.flatMap((entry) => [' ', element('a', { class: 'handle', href: addressOf(`/observations/${entry.handle}`, { thread }) }, entry.handle)]);
  const used = linksOf(all.slice(0, NAMED));
  const more = element('button', { type: 'button', class: 'more', onclick: () => more.replaceWith(...linksOf(all.slice(NAMED))) }, `and ${number(all.length - NAMED)} more`);
  if (all.length > NAMED) used.push(' ', more);
  return element('li', {}, element('span', { class: 'kind' }, one.stage), written('strong', {}, one.verdict), ...(one.reasons ?? []).map((reason) => written('p', { class: 'quiet' }, reason)),
    used.length ? element('p', { class: 'meta' }, 'based on', ...used) : '');
}

/** The details of a step: single values and lists of words directly, the others on request. */
function said(detail) {
  if (detail === null || detail === undefined) return [];
  const parts = Object.entries(detail).map(([name, value]) => [name, Array.isArray(value) && value.every((one) => typeof one !== 'object') ? value.join('; ') : value]);
  const plain = parts.filter(([, value]) => typeof value !== 'object' && value !== '');
  const shown = plain.length ? [element('span', { class: 'detail' }, plain.map(([name, value]) => (['text', 'verdict', 'reasons', 'fields'].includes(name) ? value : `${name.replaceAll('_', ' ')} ${value}`)).join(', '))] : [];
  if (parts.every(([, value]) => typeof value !== 'object')) return shown;
  return [...shown, element('details', {}, element('summary', {}, 'Details'), element('pre', {}, JSON.stringify(detail, null, 2)))];
}

function entryRow(entry, begin) {
  const from = Date.parse(entry.timestamp) - begin;
  const took = (entry.duration_us ?? 0) / 1000;
  const bar = element('span', { class: 'bar' });
  const what = entry.observation_id && entry.component === 'scratch_page' ? element('a', { href: `/observations/${entry.observation_id}` }, entry.observation_type?.replaceAll('_', ' ') ?? 'observation')
    : entry.observation_type ? element('span', { class: 'quiet' }, entry.observation_type) : null;
  const row = element('li', { class: `entry part-${entry.component}` },
    element('span', { class: 'at', title: absolute(entry.timestamp) }, `+${span(Math.max(0, from))}`),
    element('span', { class: 'lane', 'aria-hidden': 'true' }, bar),
    element('span', { class: 'what' }, element('span', { class: 'kind' }, entry.component.replaceAll('_', ' ')), element('strong', {}, entry.operation.replaceAll('_', ' ')), what,
      entry.status === 'success' ? null : element('span', { class: `badge ${/fail|denied|reject/.test(entry.status) ? '' : 'calm'}` }, entry.status),
      element('span', { class: 'meta' }, entry.source, took > 0 ? ` · took ${span(took)}` : '', entry.node_id && entry.run_id ? [' · ', element('a', { href: `/runs/${entry.run_id}?node=${entry.node_id}` }, 'view node')] : ''), ...said(entry.detail)));
  row.place = (scale) => {
    const whole = scale.last - scale.begin;
    bar.style.left = `${Math.min(98.5, Math.max(0, ((from - took) / whole) * 100))}%`;
    bar.style.width = `${Math.max(1.5, Math.min(100, (took / whole) * 100))}%`;
    row.scale = scale;
  };
  return row;
}

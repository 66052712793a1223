// The result of a node with its evidence, its criteria, its cost and its limits.

import { get, told } from './ask.js';
import { element, empty, isPlain, trouble, written } from './dom.js';
import { absolute, bytes, cost, dollars, mark, marked, meter, number, revealed, stateLine, why, words } from './format.js';
import { link, markdown } from './markdown.js';

/** How many characters of an output are shown at first. */
const SHORT = 4000;
const PART = 32 * 1024;
/** How many pieces of evidence are shown at first. */
const MANY = 50;
const LIMITS = { tokens: 'tokens', tokens_in: 'input tokens', tokens_cached: 'cached input tokens', tokens_out: 'output tokens', micro_usd: 'spent', model_calls: 'model calls', tool_calls: 'tool calls', bytes: 'written to journal and pages', nodes: 'nodes' };

/**
 * The parts of a node's description. `find(id)` returns another node of the run, `choose` shows it; `state` is the
 * node's state, `approval` what of it waits for approval, if anything does, `isKept` whether it was done in the run that
 * this one was forked from.
 */
export function nodeParts(node, { find, choose, state, approval, isKept = false }) {
  const { result } = node;
  const parts = [element('p', { class: 'line' }, stateLine(state), state === 'superseded' && element('span', { class: 'quiet' }, `was: ${words(node.outcome)}`), node.stop_reason && element('span', { class: 'quiet', title: node.stop_reason }, why(node.stop_reason)),
    result?.severity && element('span', { class: 'badge calm' }, `${result.severity} failure`), node.attempt > 1 && element('span', { class: 'meta' }, `attempt ${node.attempt}`))];
  if (isKept) parts.push(element('p', { class: 'quiet' }, 'Kept from the run that this one was forked from. It did not run again.'));
  if (node.parked) parts.push(element('p', { class: 'quiet' }, `Next attempt at ${absolute(node.parked.until)}: ${node.parked.cause}`));
  if (approval && !node.outcome && approval.kind !== 'plan') parts.push(element('p', {}, element('span', { class: 'quiet' }, 'To be approved: '), element('code', {}, revealed(approval.question))));
  if (node.call) parts.push(element('p', { class: 'quiet' }, element('code', {}, revealed(node.call))));
  if (result?.notes) parts.push(...markdown(result.notes));
  if (result?.criteria.length) parts.push(element('h3', {}, 'Criteria'), element('ul', { class: 'plain' }, ...result.criteria.map((one) => criterion(one, node.criteria.find(({ id }) => id === one.criterion)?.text))));
  if (result?.evidence.length) parts.push(element('h3', {}, 'Evidence'), ...evidence(result.evidence, find, choose));
  if (result?.output !== undefined) parts.push(element('h3', {}, 'Output'), output(result.output));
  if (result?.output_omitted) parts.push(element('h3', {}, 'Output'), element('p', { class: 'quiet' }, 'Too large to show here. Each part below shows its own output.'));
  if (result?.output_ref) parts.push(element('h3', {}, 'Output'), blob(result.output_ref));
  parts.push(...budget(node));
  if (!result && !node.started_at) parts.push(empty('Not started yet.'));
  return parts;
}

function criterion(one, text) {
  return element('li', {}, mark(one.finding), written('bdi', {}, text || one.criterion), element('span', { class: 'meta' }, ` ${words(one.finding)}${one.required ? '' : ', optional'}${one.why ? ': ' : ''}`, one.why ? written('bdi', {}, one.why) : ''));
}

/** All evidence, or the first pieces if there is much: those that did not end well come first then. */
function evidence(all, find, choose) {
  const item = (one) => element('li', {}, source(one, find, choose));
  if (all.length <= MANY) return [element('ul', { class: 'plain' }, ...all.map(item))];
  const isBad = (one) => /^(failed|partial)$/.test(find(one.id)?.outcome ?? '');
  const list = element('ul', { class: 'plain' }, ...[...all.filter(isBad), ...all.filter((one) => !isBad(one))].slice(0, MANY).map(item));
  const more = element('button', { type: 'button', onclick: () => { list.replaceChildren(...all.map(item)); more.remove(); } }, `Show all ${number(all.length)}`);
  return [list, more];
}

/** A piece of evidence, with a link if there is one. */
function source(one, find, choose) {
  const span = one.span ? ` ${one.span}` : '';
  const meta = element('span', { class: 'meta' }, ` ${one.kind.replaceAll('_', ' ')}${span}${one.hash ? ` · ${one.hash.slice(0, 12)}` : ''}`);
  const node = /^(node|tool_call)$/.test(one.kind) && find(one.id);
  if (node) {
    return element('span', {}, element('a', { href: `?node=${one.id}`, onclick: (event) => { if (isPlain(event)) { event.preventDefault(); choose(node); } } }, ...marked(node.outcome ?? node.state), written('bdi', {}, node.title)), meta);
  }
  if (/^(observation|entry)$/.test(one.kind)) return element('span', {}, link(one.id, `/observations/${encodeURIComponent(one.id)}`), meta);
  if (one.kind === 'page') return element('span', {}, link(one.id, `/pages/${encodeURIComponent(one.id)}`), meta);
  if (/^https?:\/\//.test(one.id)) return element('span', {}, link(one.id, one.id), meta);
  return element('span', {}, element('code', {}, one.id), meta);
}

function output(value) {
  const text = typeof value === 'string' ? value : JSON.stringify(value, null, 2);
  const shown = written('pre', {}, text.slice(0, SHORT));
  if (text.length <= SHORT) return shown;
  const all = element('button', { type: 'button', onclick: () => { shown.textContent = text; all.remove(); } }, `Show all ${number(text.length)} characters`);
  return element('div', {}, shown, all);
}

/** A large output, loaded part by part. */
function blob({ hash, bytes: size }) {
  const shown = written('pre', {}), note = element('div');
  let at = 0;
  const more = element('button', {
    type: 'button',
    onclick: async () => {
      try {
        const part = await get(`/blobs/${hash}?from=${at}&to=${at + PART}`);
        shown.append(part.text);
        at = part.to;
        more.hidden = at >= size;
      } catch (error) { note.replaceChildren(trouble(told(error))); }
    },
  }, 'Show more');
  return element('div', {}, element('p', { class: 'meta' }, `${bytes(size)}, stored beside the journal`), shown, more, note);
}

function budget(node) {
  const { spent, limits = [], paid_twice: twice } = node;
  const used = cost(spent);
  const callsOf = (count, whom) => count && `${number(count)} ${whom} call${count === 1 ? '' : 's'}`;
  const calls = [callsOf(spent.model_calls, 'model'), callsOf(spent.tool_calls, 'tool'), twice && `${number(twice)} possibly charged twice (it is unknown how the first attempt ended)`].filter(Boolean);
  if (!used && calls.length === 0 && limits.length === 0) return [];
  const figure = (name, n) => ({ micro_usd: dollars, bytes }[name] ?? number)(n);
  const rows = limits.map((one) => element('li', {}, meter(one.limit ? one.used / one.limit : 1, `${LIMITS[one.what]}: ${figure(one.what, one.used)} of ${figure(one.what, one.limit)}`, { isLimit: true }),
    ` ${figure(one.what, one.used)} of ${figure(one.what, one.limit)} ${LIMITS[one.what] ?? one.what}${one.over ? `, ${figure(one.what, one.over)} over the limit` : ''}`));
  return [element('h3', {}, 'Cost, including all parts below'), element('p', {}, [used, ...calls].filter(Boolean).join(' · ') || 'None'), rows.length ? element('ul', { class: 'plain' }, ...rows) : ''];
}

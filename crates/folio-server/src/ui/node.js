// The result of a node with its evidence, its criteria, its cost and its limits.

import { get, told } from './ask.js';
import { element, empty, isPlain, trouble, written } from './dom.js';
import { absolute, bytes, cost, mark, marked, meter, number, revealed, stateLine, why, words } from './format.js';
import { link, markdown } from './markdown.js';
import { LIMITS, figure } from './uses.js';
import { hasLines, hasValues, lines, values } from './values.js';

const PART = 32 * 1024;
/** How many pieces of evidence are shown at first. */
const MANY = 50;

/**
 * The parts of a node's description. `find(id)` returns another node of the run, `choose` shows it; `state` is the
 * node's state, `approval` what of it waits for approval, if anything does, `isKept` whether it was done in the run that
 * this one was forked from, `inputs` what the run was given, if the node stands for the run.
 */
export function nodeParts(node, { find, choose, state, approval, isKept = false, inputs = null }) {
  const { result } = node;
  const parts = [element('p', { class: 'line' }, stateLine(state), state === 'superseded' && element('span', { class: 'quiet' }, `was: ${words(node.status)}`), node.stop_reason && state !== 'not_begun' && element('span', { class: 'quiet', title: node.stop_reason }, why(node.stop_reason)),
    result?.severity && element('span', { class: 'badge calm' }, `${result.severity} failure`), node.attempt > 1 && element('span', { class: 'meta' }, `attempt ${node.attempt}`))];
  if (isKept) parts.push(element('p', { class: 'quiet' }, 'Kept from the run that this one was forked from. It did not run again.'));
  if (node.parked) parts.push(element('p', { class: 'quiet' }, `Next attempt at ${absolute(node.parked.until)}: ${node.parked.cause}`));
  if (node.path) parts.push(element('p', { class: 'meta' }, element('code', { title: 'The path of this part, as commands name it' }, node.path)));
  parts.push(...callParts(node, approval));
  if (result?.notes) parts.push(...markdown(result.notes));
  if (result?.criteria.length) parts.push(element('h3', {}, 'Criteria'), element('ul', { class: 'plain' }, ...result.criteria.map((one) => criterion(one, node.criteria.find(({ id }) => id === one.criterion)?.text))));
  else if (!result && node.criteria.length) parts.push(element('h3', {}, 'Criteria'), element('ul', { class: 'plain' }, ...node.criteria.map((one) => element('li', {}, mark('created'), written('bdi', {}, one.text || one.id), element('span', { class: 'meta' }, one.required ? ' not checked yet' : ' not checked yet, optional')))));
  if (result?.evidence.length) parts.push(element('h3', {}, 'Evidence'), ...evidence(result.evidence, find, choose));
  if (result?.output !== undefined) parts.push(element('h3', {}, 'Output'), output(result.output));
  if (result?.output_omitted) parts.push(element('h3', {}, 'Output'), element('p', { class: 'quiet' }, 'Too large to show here. Each part below shows its own output.'));
  if (result?.output_ref) parts.push(element('h3', {}, 'Output'), blob(result.output_ref));
  if (hasValues(inputs)) parts.push(element('h3', {}, 'Inputs'), values(inputs));
  parts.push(...budget(node));
  if (!result && !node.started_at) parts.push(empty('Not started yet.'));
  return parts;
}

/** What the node is about to do, does or did: its call with all arguments, if they are known, else as its journal says it. */
function callParts(node, approval) {
  const isAsked = approval && !node.status, asks = isAsked && approval.call;
  if (asks) return [element('p', {}, element('span', { class: 'quiet' }, 'To be approved: '), element('code', {}, revealed(asks.tool))), values(asks.args, { isWhole: true })];
  if (isAsked && approval.kind === 'check') return [element('p', {}, element('span', { class: 'quiet' }, 'To be approved: '), element('code', {}, revealed(approval.question)))];
  if (!node.call) return [];
  if (!hasValues(node.args)) return [element('p', { class: 'quiet' }, element('code', {}, revealed(node.call)))];
  const [tool] = node.call.split(' ');
  return [element('p', { class: 'quiet' }, element('code', {}, revealed(tool))), values(node.args)];
}

function criterion(one, text) {
  return element('li', {}, mark(one.finding), written('bdi', {}, text || one.criterion), element('span', { class: 'meta' }, ` ${words(one.finding)}${one.required ? '' : ', optional'}${one.why ? ': ' : ''}`, one.why ? written('bdi', {}, one.why) : ''));
}

/** All evidence, or the first pieces if there is much: those that did not end well come first then. */
function evidence(all, find, choose) {
  const item = (one) => element('li', {}, source(one, find, choose));
  if (all.length <= MANY) return [element('ul', { class: 'plain' }, ...all.map(item))];
  const isBad = (one) => /^(failed|partial)$/.test(find(one.id)?.status ?? '');
  const list = element('ul', { class: 'plain' }, ...[...all.filter(isBad), ...all.filter((one) => !isBad(one))].slice(0, MANY).map(item));
  const more = element('button', { type: 'button', onclick: () => { list.replaceChildren(...all.map(item)); more.remove(); } }, `Show all ${number(all.length)}`);
  return [element('div', {}, list, more)];
}

/** A piece of evidence, with a link if there is one. */
function source(one, find, choose) {
  const span = one.span ? ` ${one.span}` : '';
  const meta = element('span', { class: 'meta' }, ` ${one.kind.replaceAll('_', ' ')}${span}${one.hash ? ` · ${one.hash.slice(0, 12)}` : ''}`);
  const node = /^(node|tool_call)$/.test(one.kind) && find(one.id);
  if (node) {
    return element('span', {}, element('a', { href: `?node=${one.id}`, onclick: (event) => { if (isPlain(event)) { event.preventDefault(); choose(node); } } }, ...marked(node.status ?? node.state), written('bdi', {}, node.title)), meta);
  }
  if (/^(observation|entry)$/.test(one.kind)) return element('span', {}, link(one.id, `/observations/${encodeURIComponent(one.id)}`), meta);
  if (one.kind === 'page') return element('span', {}, link(one.id, `/pages/${encodeURIComponent(one.id)}`), meta);
  if (/^https?:\/\//.test(one.id)) return element('span', {}, link(one.id, one.id), meta);
  return element('span', {}, element('code', {}, one.id), meta);
}

function output(value) {
  if (typeof value !== 'string' && hasLines(value)) return values(value);
  return lines(typeof value === 'string' ? value : JSON.stringify(value, null, 2), { label: 'Output' });
}

/** A large output, loaded part by part: the first at once. */
function blob({ hash, bytes: size }) {
  const shown = written('pre', {}), note = element('div');
  let at = 0;
  const load = async () => {
    try {
      const part = await get(`/blobs/${hash}?from=${at}&to=${at + PART}`);
      shown.append(part.text);
      at = part.to;
      note.replaceChildren();
    } catch (error) { note.replaceChildren(trouble(told(error))); }
    more.hidden = at >= size;
  };
  const more = element('button', { type: 'button', hidden: true, onclick: load }, 'Show more');
  load();
  return element('div', {}, element('p', { class: 'meta' }, `${bytes(size)}, stored beside the journal`), shown, more, note);
}

function budget(node) {
  const { spent, limits = [], paid_twice: twice } = node;
  const used = cost(spent);
  const callsOf = (count, whom) => count && `${number(count)} ${whom} call${count === 1 ? '' : 's'}`;
  // A limit says how many there were.
  const isLimited = (name) => limits.some((one) => one.what === name);
  const calls = [!isLimited('model_calls') && callsOf(spent.model_calls, 'model'), !isLimited('tool_calls') && callsOf(spent.tool_calls, 'tool'), twice && `${number(twice)} possibly charged twice (it is unknown how the first attempt ended)`].filter(Boolean);
  if (!used && calls.length === 0 && limits.length === 0) return [];
  const rows = limits.map((one) => element('li', {}, meter(one.limit ? one.used / one.limit : 1, `${LIMITS[one.what]}: ${figure(one.what, one.used)} of ${figure(one.what, one.limit)}`, { isLimit: true }),
    ` ${figure(one.what, one.used)} of ${figure(one.what, one.limit)} ${LIMITS[one.what] ?? one.what}${one.over ? `, ${figure(one.what, one.over)} over the limit` : ''}`));
  return [element('h3', {}, 'Cost, including all parts below'), used || calls.length ? element('p', {}, [used, ...calls].filter(Boolean).join(' · ')) : rows.length ? '' : element('p', {}, 'None'), rows.length ? element('ul', { class: 'plain' }, ...rows) : ''];
}

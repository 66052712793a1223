// One observation with its history.

import { failureOf, get, live, send } from './ask.js';
import { $, announce, element, keep, settle, sure, trouble, written } from './dom.js';
import { difference } from './diff.js';
import { absolute, moment, number } from './format.js';
import { expiry, isOver, kindOf, sureness, tagsOf } from './observations.js';

export async function showObservation(view, { name, query, signal, title, go }) {
  title(name);
  view.className = 'narrow';
  const at = `/observations/${encodeURIComponent(name)}`;
  const text = element('div'), buttons = element('div', { class: 'buttons' }), note = element('div');
  const one = element('section', { class: 'panel stack' }, text, buttons, note);
  const past = element('ol', { class: 'versions', reversed: true });
  view.append(element('p', { class: 'up' }, element('a', { href: '/observations' }, '← Scratch page')), element('h1', {}, `Observation ${name}`), one,
    element('h2', {}, 'History'), past);
  let shown = '', id = null, known = null;
  // An entry that a decision used may be an item of the scratchbook of its thread; then it is shown there.
  const elsewhere = async (error) => {
    const thread = query.get('thread');
    if (error.status !== 404 || !thread) throw error;
    const item = await get(`/threads/${encodeURIComponent(thread)}/scratchbook/items/${encodeURIComponent(name)}`, { signal }).catch(() => { throw error; });
    await go(`/threads/${encodeURIComponent(thread)}#${item.handle}`, { replace: true });
    return [];
  };
  const draw = async () => {
    const [now, history] = await Promise.all([get(`${at}?whole=true`, { signal }), get(`${at}/history`, { signal })]).catch(elsewhere);
    if (!now) return;
    known = now;
    id = now.observation_id;
    const said = JSON.stringify([now, history.items]);
    if (shown === said) return;
    shown = said;
    // What has not changed stays, with what somebody has marked or focused.
    settle(text, body(now));
    // Nothing is left to restore of an erased one.
    keep(buttons, now.erased ? [] : [now.status === 'archived' ? 'Restore' : 'Archive'], () => 'change', (what) => element('button', { type: 'button', onclick: () => change(what) }, what));
    const rest = history.next ? [{ version: '', rest: `These are the first ${number(history.returned)} of ${number(history.total)} versions.` }] : [];
    keep(past, [...rest, ...history.items.toReversed()], (item) => item.version, (item) => (item.rest ? element('li', { class: 'quiet' }, item.rest) : version(item)));
  };
  const change = async (what) => {
    const { handle } = known;
    if (what === 'Archive' && !await sure(`Archive ${handle}?`, 'Models no longer see it. You can still find it among archived observations, and restore it there.', 'Archive')) return;
    try {
      await send('POST', `/observations/${handle}/${what.toLowerCase()}`);
      note.replaceChildren();
      announce(what === 'Archive' ? 'Archived.' : 'Restored.');
      await draw();
      $('view').focus({ preventScroll: true });
    } catch (error) { note.replaceChildren(trouble(failureOf(error))); }
  };
  // A commit that changes an entry names it.
  const concerns = ({ changes }) => (changes.some((one) => one.observation_id === id) ? true : changes.every((one) => one.observation_id || one.change.endsWith('_turn')) ? null : false);
  await live(draw, signal, { concerns, isOwed: () => known !== null && isOver(known) });
}

function body(one) {
  const { source } = one;
  const rows = [
    ['Status', [...new Set([one.status.replaceAll('_', ' '), one.state])].join(', ')], ['Owner', one.owner], ['Trust', one.trust.replaceAll('_', ' ')],
    ['Source', element('span', {}, source.tool ? `tool ${source.tool}` : 'no tool', source.run_id && [' in ', element('a', { href: `/runs/${source.run_id}${source.node_id ? `?node=${source.node_id}` : ''}` }, 'a run')],
      source.turn_id && [' in ', element('a', { href: `/turns/${source.turn_id}` }, 'a turn')])],
    ['Claimed source', one.claimed_source && JSON.stringify(one.claimed_source)],
    ['Context', one.context && JSON.stringify(one.context)], ['Metadata', one.metadata && JSON.stringify(one.metadata)],
    ['Replaced by', one.superseded_by && element('a', { href: `/observations/${one.superseded_by}` }, one.superseded_by)],
    ['Archive reason', one.archived_for], ['Erase reason', one.erased], ['Outcome', one.outcome], ['Personal data', one.pii?.join(', ')],
    ['Created', absolute(one.created_at)], ['Updated', absolute(one.updated_at)], ['ID', element('code', {}, one.observation_id)],
  ].filter(([, value]) => value);
  return [
    element('p', { class: 'line' }, kindOf(one), sureness(one), expiry(one), ...tagsOf(one)),
    one.title ? written('p', { class: 'said' }, element('strong', {}, one.title)) : '',
    written('p', { class: 'said' }, one.content || '(content erased)'),
    element('dl', { class: 'facts' }, ...rows.flatMap(([what, value]) => [element('dt', {}, what), element('dd', {}, value)])),
  ];
}

const NAMES = { body: 'content', content_ref: 'long content', pinned: 'pin', expires_at: 'expires' };
/** The value of a field in words; times are formatted as elsewhere on the page. */
function text(value, field) {
  if (value === null || value === undefined) return '';
  if (typeof value === 'string') return field.endsWith('_at') ? absolute(value) : value;
  if (Array.isArray(value) && value.every((one) => typeof one === 'string')) return value.join(', ');
  return value.until ? absolute(value.until) : JSON.stringify(value, null, 2);
}

function version(version) {
  const isFirst = version.version === 1;
  const changes = version.changes.filter(({ field }) => !isFirst || !['source', 'trust'].includes(field)).map(({ field, before, after }) => {
    const isLong = (field === 'content' || field === 'body') && !isFirst;
    const [was, is] = [text(before, field), text(after, field)];
    return [element('dt', {}, NAMES[field] ?? field.replaceAll('_', ' ')),
      element('dd', {}, isLong ? difference(was, is) : isFirst ? written('bdi', {}, is) : [written('del', {}, was || 'none'), ' → ', written('ins', {}, is || 'none')])];
  });
  const clashes = (version.conflicts ?? []).map(({ field }) => element('p', { class: 'partial' }, `overwrote another change of ${field}`));
  return element('li', { value: version.version, class: 'panel' },
    element('p', { class: 'line' }, element('strong', {}, `Version ${version.version}`), version.operation.replaceAll('_', ' '), element('span', { class: 'meta' }, `by ${version.by} · `, moment(version.timestamp), ` · commit ${version.seq}`)),
    version.reason ? written('p', { class: 'quiet' }, version.reason) : '', element('dl', { class: 'facts' }, ...changes.flat()), ...clashes);
}

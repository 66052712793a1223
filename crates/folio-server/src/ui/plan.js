// The plan of a run, or of a part of it: as it stands, its versions and how they differ, and changing it.

import { get, query, send, told } from './ask.js';
import { difference } from './diff.js';
import { $, announce, element, sure, trouble, written } from './dom.js';
import { mark, moment, words } from './format.js';
import { markdown } from './markdown.js';

/** Shows the plan of `node` in `pane`. `hasEnded`: whether nothing can be changed any more. */
export async function showPlan(pane, { run, node, hasEnded, signal }) {
  const fields = { node };
  const [{ body: plan, etag }, { items: versions }] = await Promise.all([
    get(query(`/runs/${run}/plan`, fields), { as: 'answer', signal }), get(query(`/runs/${run}/plan/versions`, fields), { signal }),
  ]);
  const again = () => showPlan(pane, { run, node, hasEnded, signal });
  const said = JSON.stringify([plan, versions.length]);
  if (pane.querySelector('textarea') || pane.said === said) return;
  pane.said = said;
  const steps = plan.states.map((step) => element('li', {}, mark(step.status === 'waiting' ? 'created' : step.status), written('bdi', {}, step.title), element('span', { class: 'meta' }, ` ${step.id} · ${words(step.status)}`)));
  const edit = element('button', { type: 'button', onclick: () => editor(pane, { run, node, plan, etag, again }) }, 'Edit the plan');
  pane.replaceChildren(
    element('p', { class: 'line' }, element('strong', {}, `Version ${plan.plan_version}`), hasEnded ? '' : edit),
    element('ul', { class: 'plain steps' }, ...steps),
    element('h3', {}, 'Versions'),
    element('ol', { class: 'versions' }, ...versions.map((version, at) => versionItem(version, versions[at - 1]))),
    element('details', {}, element('summary', {}, 'All of it, as it is written'), ...markdown(`\`\`\`\n${plan.markdown.replaceAll('```', "'''")}\n\`\`\``)));
}

/** Whether a plan was changed and not saved. */
export function isChanged() {
  const text = $('view').querySelector('textarea.plan');
  return text !== null && text.value !== text.defaultValue;
}

/** Whether what is shown may give way to something else: asks, if a plan was changed and not saved. */
export async function mayLeave() {
  return !isChanged() || sure('Throw away what you changed in the plan?', 'It is not the plan yet.', 'Throw it away');
}

function versionItem(version, before) {
  const change = version.difference;
  const counts = change ? ['added', 'changed', 'dropped'].filter((what) => change[what]?.length).map((what) => `${what} ${change[what].join(', ')}`) : [];
  return element('li', { value: version.plan_version }, element('p', { class: 'line' }, element('strong', {}, `Version ${version.plan_version}`),
    element('span', { class: 'meta' }, version.by ? `by ${version.by} · ` : '', moment(version.timestamp))),
  version.reason ? written('p', { class: 'quiet' }, version.reason) : '',
  counts.length ? element('p', {}, counts.join('; ')) : '',
  before ? element('details', { open: true }, element('summary', {}, `What is different from version ${before.plan_version}`), difference(before.markdown, version.markdown)) : '');
}

function editor(pane, { run, node, plan, etag, again }) {
  const text = element('textarea', { class: 'plan', dir: 'auto', 'aria-label': 'The plan, in markdown', spellcheck: 'false', rows: Math.min(30, plan.markdown.split('\n').length + 3) }, plan.markdown);
  const note = element('div', { role: 'alert' });
  const leave = () => { pane.replaceChildren(); pane.said = null; return again(); };
  const save = () => send('PUT', query(`/runs/${run}/plan`, { node }), text.value, { 'if-match': etag }).then(({ difference: change, plan_version: version }) => {
    const isSame = !['added', 'changed', 'dropped'].some((what) => change[what]?.length) && !change.reordered;
    announce(isSame ? 'The plan says what it said.' : `The plan has version ${version} now.`);
    return leave();
  }).catch((error) => note.replaceChildren(trouble(told(error))));
  pane.replaceChildren(
    element('p', { class: 'quiet' }, 'A line is a step, its id stands in braces. A new line is a new step, for a model unless a block below says what is done; a line that is gone drops its step. What has begun stays as it is.'),
    text, element('p', { class: 'buttons' }, element('button', { type: 'button', onclick: leave }, 'Leave it'), element('button', { type: 'button', class: 'main', onclick: save }, 'Make it the plan')), note);
  text.focus();
}

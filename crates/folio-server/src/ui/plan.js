// The plan of a run, or of a part of it: its present form, its versions and their differences, and an editor.

import { failureOf, get, query, send } from './ask.js';
import { difference, merged } from './diff.js';
import { $, announce, element, keep, settle, sure, trouble, written } from './dom.js';
import { mark, moment, words } from './format.js';

/**
 * Shows the plan of `node` in `pane`, unless it `isOld` by then. `hasEnded`: whether the plan can no longer be
 * changed. `again()` redraws the pane.
 */
export async function showPlan(pane, { run, node, hasEnded, signal, isOld, again }) {
  const fields = { node };
  const [{ body: plan, etag }, { items: versions }] = await Promise.all([
    get(query(`/runs/${run}/plan`, fields), { as: 'answer', signal }), get(query(`/runs/${run}/plan/versions`, fields), { signal }),
  ]);
  if (isOld()) return;
  const said = JSON.stringify([plan, versions.length, hasEnded]), known = { plan, etag, versions, hasEnded };
  const text = pane.querySelector('textarea.plan');
  if (text) { text.heard(known); return; }
  if (pane.said === said) return;
  pane.said = said;
  const there = pane.querySelector('.sheet') ?? sheet((shown) => editor(pane, { run, node, known: shown, again }));
  if (!there.isConnected) pane.replaceChildren(there);
  there.show(known);
}

/** Members of groups in groups are indented up to this depth. */
const DEEPEST = 3;
/** The depth of every one of `steps` in groups, a group before its members, as the states of a plan are listed. */
const depthsOf = (steps, depth = 0) => steps.flatMap((step) => [depth, ...depthsOf(step.parallel ?? step.sequence ?? [], depth + 1)]);

/**
 * The present plan. A redraw leaves unchanged parts, with what somebody has opened or selected there. `change(known)`
 * opens the editor.
 */
function sheet(change) {
  let known = null;
  const called = element('strong'), edit = element('button', { type: 'button', onclick: () => change(known) }, 'Edit plan');
  const refusal = element('div'), steps = element('ul', { class: 'plain steps' }), past = element('ol', { class: 'versions' }), whole = element('div');
  const made = element('div', { class: 'sheet' }, element('p', { class: 'line' }, called, edit), refusal, steps, element('h3', {}, 'Versions'), past,
    element('details', {}, element('summary', {}, 'Plan source'), whole));
  made.show = (given) => {
    known = given;
    const { plan, versions, hasEnded } = given;
    settle(called, [`Version ${plan.plan_version}`]);
    // The steps of a rejected plan never began, and another plan may follow.
    const { rejected } = versions.find((version) => version.plan_version === plan.plan_version) ?? {};
    edit.hidden = hasEnded || Boolean(rejected);
    settle(refusal, rejected ? [rejection(rejected)] : []);
    const stateOf = (status) => (status === 'waiting' ? 'created' : rejected && /^(superseded|skipped)$/.test(status) ? 'not_begun' : status);
    const depths = depthsOf(plan.steps);
    keep(steps, plan.states.map((step, at) => ({ ...step, state: stateOf(step.status), depth: depths[at] ?? 0 })), ({ id }) => id, (step) => element('li', { class: step.depth > 0 ? `in-${Math.min(step.depth, DEEPEST)}` : null }, mark(step.state), written('bdi', {}, step.title), element('span', { class: 'meta' }, ` ${step.id} · ${words(step.state)}`)));
    // A version changes only by being rejected. The newest comes first, as in a history.
    keep(past, versions.map(({ plan_version: version, rejected: refused }, at) => ({ at, version, refused })).reverse(), ({ version }) => version, ({ at }) => versionItem(versions[at], versions[at - 1]));
    settle(whole, [written('pre', {}, plan.markdown)]);
  };
  return made;
}

/** Whether a plan was changed but not saved. */
export function isChanged() {
  const text = $('view').querySelector('textarea.plan');
  return text !== null && text.value !== text.defaultValue;
}

/** Whether the current view may be left: asks if a plan was changed but not saved. */
export async function mayLeave() {
  return !isChanged() || sure('Discard your changes to the plan?', 'You have not saved them.', 'Discard');
}

/** Who rejected a plan, and why. */
const rejection = ({ by, reason }) => element('p', { class: 'failed' }, `Rejected by ${by}${reason ? ': ' : ', without a reason.'}`, written('bdi', {}, reason));

function versionItem(version, before) {
  const change = version.difference;
  const counts = change ? ['added', 'changed', 'dropped'].filter((what) => change[what]?.length).map((what) => `${what} ${change[what].join(', ')}`) : [];
  return element('li', { value: version.plan_version }, element('p', { class: 'line' }, element('strong', {}, `Version ${version.plan_version}`),
    element('span', { class: 'meta' }, version.by ? `by ${version.by} · ` : '', moment(version.timestamp))),
  version.rejected ? rejection(version.rejected) : '',
  version.reason ? written('p', { class: 'quiet' }, version.reason) : '',
  counts.length ? element('p', {}, counts.join('; ')) : '',
  before ? element('details', { open: true }, element('summary', {}, `Changes since version ${before.plan_version}`), difference(before.markdown, version.markdown)) : '');
}

/** Opens an editor for the plan as it is `known`. Changes by others meanwhile are shown, and can be merged. */
function editor(pane, { run, node, known, again }) {
  const { plan } = known;
  const text = element('textarea', { class: 'plan', dir: 'auto', 'aria-label': 'Plan in Markdown', spellcheck: 'false', rows: Math.min(30, plan.markdown.split('\n').length + 3) }, plan.markdown);
  const note = element('div'), other = element('div', { role: 'status' });
  const close = async () => {
    // Somebody may have gone to another part, which is shown then.
    if (!text.isConnected) return;
    pane.replaceChildren();
    pane.said = null;
    await again();
    if (document.activeElement === document.body) (pane.querySelector('button:not([hidden])') ?? pane).focus({ preventScroll: true });
  };
  const path = query(`/runs/${run}/plan`, { node });
  let base = known, newest = known;
  // Merges the changes of others into the text if both changed different lines; otherwise the writer has to decide.
  const rebase = () => {
    // What is being saved is no longer changed.
    if (text.readOnly) return;
    const both = merged(base.plan.markdown, text.value, newest.plan.markdown);
    const version = newest.plan.plan_version;
    text.defaultValue = newest.plan.markdown;
    if (both !== null && both !== text.value) {
      // The caret stays where it was in the text.
      const { value, selectionStart: caret } = text, rest = value.slice(caret);
      text.value = both;
      text.selectionStart = text.selectionEnd = both.startsWith(value.slice(0, caret)) ? caret : both.endsWith(rest) ? both.length - rest.length : Math.min(caret, both.length);
    }
    base = newest;
    other.replaceChildren(both !== null ? element('p', { class: 'quiet' }, `Your text now includes the changes of version ${version}.`)
      : element('p', { class: 'partial' }, `Your text is unchanged, because version ${version} changed the same lines. If you save, your text replaces that version.`));
    note.replaceChildren();
    text.focus();
  };
  text.heard = (now) => {
    const isEnded = now.hasEnded && !newest.hasEnded;
    if (now.plan.plan_version === newest.plan.plan_version && !isEnded) return;
    newest = now;
    if (now.hasEnded) { other.replaceChildren(element('p', { class: 'trouble' }, 'It has ended in the meantime. Its plan can no longer be changed.')); return; }
    const was = base.plan.plan_version, is = now.plan.plan_version;
    const of = (version) => now.versions.find((one) => one.plan_version === version);
    const { by, markdown: after = now.plan.markdown } = of(is) ?? {};
    other.replaceChildren(element('div', { class: 'trouble' }, element('p', {}, `The plan is now at version ${is}${by ? `, saved by ${by}` : ''}. Your text is based on version ${was}.`),
      element('details', {}, element('summary', {}, `Changes since version ${was}`), difference(of(was)?.markdown ?? base.plan.markdown, after)),
      element('p', { class: 'buttons' }, element('button', { type: 'button', onclick: rebase }, `Base my text on version ${is}`))));
  };
  const look = async () => {
    const [{ body, etag }, { items: versions }] = await Promise.all([get(path, { as: 'answer' }), get(query(`/runs/${run}/plan/versions`, { node }))]);
    text.heard({ plan: body, etag, versions });
  };
  const button = element('button', { type: 'button', class: 'main', onclick: () => save() }, 'Save plan');
  // While it is being saved, nobody can write what would then be lost.
  const save = async () => {
    button.disabled = text.readOnly = true;
    try {
      const { difference: change, plan_version: version } = await send('PUT', path, text.value, { 'if-match': base.etag });
      const isSame = !['added', 'changed', 'dropped'].some((what) => change[what]?.length) && !change.reordered;
      announce(isSame ? 'Nothing changed.' : `Plan saved as version ${version}.`);
      await close();
    } catch (error) {
      button.disabled = text.readOnly = false;
      button.focus({ preventScroll: true });
      note.replaceChildren(trouble(failureOf(error)));
      if (error.status === 409) look().catch(() => {});
    }
  };
  const leave = async () => { if (await mayLeave()) await close(); };
  pane.replaceChildren(
    element('p', { class: 'quiet' }, 'Each line is a step, with its id in braces. Add a line to add a step; without a block below it, a model does the step. Remove a line to drop its step. Steps that have started stay as they are.'),
    other, text, element('p', { class: 'buttons' }, element('button', { type: 'button', onclick: leave }, 'Discard changes'), button), note);
  text.focus();
}

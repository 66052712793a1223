// The limits of a run, or of a part of it, which people can change while it runs.

import { failureOf, get, query, send } from './ask.js';
import { now } from './clock.js';
import { announce, element, trouble } from './dom.js';
import { bytes, dollars, moment, number } from './format.js';

const MIB = 1024 * 1024;

/** The label of every limit, and the unit in which people write it: nobody types millionths of a dollar. */
const FIELDS = {
  tokens: { label: 'Tokens', unit: 1, show: number },
  tokens_in: { label: 'Input tokens', unit: 1, show: number },
  tokens_cached: { label: 'Cached input tokens', unit: 1, show: number },
  tokens_out: { label: 'Output tokens', unit: 1, show: number },
  micro_usd: { label: 'US dollars', unit: 1e6, show: dollars },
  model_calls: { label: 'Model calls', unit: 1, show: number },
  tool_calls: { label: 'Tool calls', unit: 1, show: number },
  bytes: { label: 'MiB of journal and pages', unit: MIB, show: bytes },
  nodes: { label: 'Nodes', unit: 1, show: number },
};
const MINUTE = 60_000;
/**
 * The largest values: nodes are 32-bit numbers, the others must be exact in JavaScript, and the time is at most a
 * hundred years.
 */
const MOST = { nodes: 4_294_967_295 }, MOST_MINUTES = 52_560_000;

/**
 * Asks for new limits of `run`, or of `node` of it, and sets them, until its dialog is closed. `what` names it.
 * The dialog is not opened once `signal` aborts.
 */
export async function changeLimits(run, { node, what, signal }) {
  const path = query(`/runs/${run}/limits`, { node });
  const known = await get(path, { signal });
  const limits = [...known.limits, ...(known.nodes ? [{ what: 'nodes', ...known.nodes }] : [])];
  const inputs = limits.filter((one) => FIELDS[one.what]).map((one) => {
    const { label, unit, show } = FIELDS[one.what];
    // A limit that was exceeded may stay as it is.
    const input = element('input', { type: 'number', name: one.what, min: Math.min(one.used, one.limit) / unit, max: (MOST[one.what] ?? Number.MAX_SAFE_INTEGER) / unit, step: unit === 1 ? 1 : 'any', value: one.limit / unit, required: true });
    return { one, unit, input, row: element('label', {}, `${label} (${show(one.used)} used)`, input) };
  });
  // A part has a deadline of its own only if it says so.
  const hasTime = known.deadline !== null || !node, hasAny = hasTime || inputs.length > 0;
  const minutes = element('input', { type: 'number', name: 'minutes', min: 1, max: MOST_MINUTES, step: 1, placeholder: known.deadline ? 'Unchanged' : 'None' });
  const note = element('div');
  const change = element('button', { type: 'submit', class: 'main' }, 'Save');
  let saving = Promise.resolve();
  const dialog = element('dialog', { 'aria-labelledby': 'limits-title' });
  const form = element('form', {
    method: 'dialog',
    onsubmit: (event) => {
      event.preventDefault();
      if (change.disabled) return;
      const wanted = {};
      for (const { one, unit, input } of inputs) {
        const value = Math.round(input.valueAsNumber * unit);
        // What nobody changed stays exact.
        if (input.value !== input.defaultValue && value !== one.limit) wanted[one.what] = value;
      }
      if (minutes.value) wanted.deadline = new Date(now() + minutes.valueAsNumber * MINUTE).toISOString();
      const isSaving = (is) => { change.disabled = is; for (const field of form.querySelectorAll('input')) field.readOnly = is; };
      isSaving(true);
      saving = send('PATCH', path, wanted).then(() => { dialog.close(); announce('Limits saved.'); }, (error) => {
        // Whoever closed the dialog meanwhile is told on the page.
        if (!dialog.open) throw error;
        isSaving(false);
        note.replaceChildren(trouble(failureOf(error)));
      });
      saving.catch(() => {});
    },
  },
  element('h2', { id: 'limits-title' }, `Limits of ${what}`),
  hasAny ? '' : element('p', { class: 'quiet' }, 'It has no limits of its own. The limits of the parts that contain it apply.'),
  ...inputs.map(({ row }) => row),
  hasTime ? element('label', {}, element('span', {}, 'Deadline, in minutes from now', ...(known.deadline ? [' (now: ', moment(known.deadline), ')'] : [])), minutes) : '',
  note,
  element('p', { class: 'buttons' }, element('button', { type: 'button', onclick: () => dialog.close() }, hasAny ? 'Never mind' : 'Close'),
    hasAny ? change : ''));
  dialog.append(form);
  dialog.addEventListener('close', () => dialog.remove(), { once: true });
  const closed = new Promise((done) => dialog.addEventListener('close', done, { once: true }));
  document.body.append(dialog);
  dialog.showModal();
  await closed;
  await saving;
}

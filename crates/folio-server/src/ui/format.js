// Times, numbers and states, for people.

import { now } from './clock.js';
import { element } from './dom.js';

/** The mark and the name of every state. */
const STATES = {
  created: ['·', 'waiting'], ready: ['·', 'waiting'], executing: ['▸', 'running'], parked: ['↻', 'waiting to retry'], running_children: ['◔', 'running'],
  deciding: ['◇', 'deciding'], aggregating: ['Σ', 'combining results'], verifying: ['≟', 'verifying'], replanning: ['↺', 'replanning'],
  asks: ['?', 'waiting for you'], held: ['‖', 'waiting for another run'], waiting_input: ['?', 'waiting for an answer'], awaiting_approval: ['?', 'waiting for approval'], cancelling: ['◌', 'cancelling'], running: ['▸', 'running'], taken_up: ['▹', 'starting'],
  pausing: ['▸', 'running: will pause when its call ends'], interrupted: ['‖', 'interrupted: no process drives it'], paused: ['‖', 'paused'], ok: ['✓', 'done'], partial: ['◑', 'partly done'],
  skipped: ['–', 'skipped'], not_begun: ['–', 'not begun'], cancelled: ['⊘', 'cancelled'], superseded: ['↷', 'replaced'], forgotten: ['∅', 'forgotten'], failed: ['✗', 'failed'], met: ['✓', 'met'], unmet: ['✗', 'not met'], unverifiable: ['?', 'cannot be verified'],
};
/** The stop reasons, in words. */
const REASONS = {
  criteria_unmet: 'what was wanted was not reached, or nobody could tell', retries_exhausted: 'every attempt failed', policy_denied: 'permission was denied', invalid_input: 'the call or request was invalid',
  unsatisfiable: 'the task cannot be done here', budget_nodes: 'the node limit was reached', budget_depth: 'the depth limit was reached', budget_children: 'the group size limit was reached',
  budget_bytes: 'the byte limit was reached', budget_tokens: 'the token limit was reached', budget_usd: 'the cost limit was reached', budget_model_calls: 'the model call limit was reached',
  budget_tool_calls: 'the tool call limit was reached', window_full: 'the conversation does not fit into the context window', auth: 'the provider rejected the API key', refused: 'the model refused the task',
  unparseable: 'the answer of the model could not be parsed', turn_cap: 'the model took more turns than a task may', loop: 'the model repeated itself without progress', stalled: 'several plans in a row made no progress',
  needs_input: 'a person had to answer, and nobody did', superseded: 'another plan replaced it', deadline: 'the deadline passed', outcome_unknown: 'it started, but its outcome is unknown',
  upstream_failed: 'an earlier step failed', cancelled_by_user: 'a person or a program cancelled it', cancelled_by_parent: 'the group or task that contains it no longer needs it',
};
export const why = (reason) => REASONS[reason] ?? reason.replaceAll('_', ' ');

/** Whether `text` is what some state is called. */
export const isWord = (text) => Object.values(STATES).some(([, word]) => word === text);
export const words = (state) => STATES[state]?.[1] ?? state.replaceAll('_', ' ');
export const mark = (state) => element('span', { class: `mark ${state}`, 'aria-hidden': 'true' }, STATES[state]?.[0] ?? '·');
/** The mark of `state` with a hidden word, for places where no visible word names the state. */
export const marked = (state) => [mark(state), element('span', { class: 'hidden' }, `${words(state)}: `)];
export const stateLine = (state) => element('span', { class: state }, mark(state), words(state));

/**
 * `text` with invisible characters, blanks other than the space, and those that change the display of others, written out: `\u202e`. For what
 * people approve, and for what was done: no command must look like another. Newlines stay.
 */
export const revealed = (text) => text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]|(?! )\p{Zs}/gu, (letter) => {
  const code = letter.codePointAt(0).toString(16);
  return letter === '\n' ? letter : code.length > 4 ? `\\u{${code}}` : `\\u${code.padStart(4, '0')}`;
});

/** A duration: `1.2 s`, `4 min 10 s`. */
export function span(ms) {
  const s = Math.max(0, ms) / 1000;
  if (s < 0.9995) return `${Math.round(s * 1000)} ms`;
  if (s < 59.95) return `${s.toFixed(1)} s`;
  if (s < 60) return '1 min 0 s';
  if (s < 3600) return `${Math.floor(s / 60)} min ${Math.floor(s % 60)} s`;
  return s < 86_400 ? `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min` : `${Math.floor(s / 86_400)} d ${Math.floor((s % 86_400) / 3600)} h`;
}

const plural = (n, what) => `${n} ${what}${n === 1 ? '' : 's'}`;
function rough(ms) {
  const s = Math.round(Math.abs(ms) / 1000);
  if (s < 60) return `${s} s`;
  if (s < 3570) return `${Math.round(s / 60)} min`;
  if (s < 84_600) return plural(Math.round(s / 3600), 'hour');
  return s < 86_400 * 45 ? plural(Math.round(s / 86_400), 'day') : plural(Math.round(s / (86_400 * 30.4)), 'month');
}
const relative = (at) => {
  const ms = at - now();
  if (Math.abs(ms) < 5000) return 'now';
  return ms > 0 ? `in ${rough(ms)}` : `${rough(ms)} ago`;
};
export const absolute = (text) => new Date(text).toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'medium' });

/** A time relative to now, with the exact time as a tooltip. */
export function moment(text) {
  return element('time', { datetime: text, title: absolute(text) }, relative(Date.parse(text)));
}

/** Updates every relative time on the page. */
export function tick() {
  for (const time of document.querySelectorAll('time[datetime]')) {
    const text = relative(Date.parse(time.dateTime));
    if (time.textContent !== text) time.textContent = text;
  }
}

/** A number with separated thousands. */
export const number = (n) => n.toLocaleString('en').replaceAll(',', '\u202f');
/** A short number: 12.3k. */
export function few(n) {
  if (n < 1000) return String(n);
  let at = 0, rest = n / 1000;
  // A number that would be rounded to 1000 gets the next unit.
  while (rest >= 999.5 && at < 3) { rest /= 1000; at++; }
  return `${rest.toFixed(rest < (at > 0 ? 99.95 : 9.95) ? 1 : 0)}${'kMGT'[at]}`;
}
export function bytes(n) {
  let at = 0, rest = n;
  while (rest >= (at > 0 ? 1023.95 : 1024) && at < 3) { rest /= 1024; at++; }
  return at === 0 ? `${n} B` : `${rest.toFixed(1)} ${'KMG'[at - 1]}iB`;
}
/** An amount of money; less than a ten-thousandth of a dollar is not shown as zero. */
export const dollars = (micro) => (micro > 0 && micro < 100 ? 'less than $0.0001' : `$${(micro / 1e6).toFixed(micro > 0 && micro < 10_000 ? 4 : 2)}`);
export const perCent = (share) => `${Math.round(share * 100)}%`;

/** The cost in short; empty if there was none. `unknown` stands for an unknown price. */
export function cost(spent, unknown = 'cost unknown') {
  const tokens = (spent?.tokens_in ?? 0) + (spent?.tokens_out ?? 0);
  const known = spent?.micro_usd && dollars(spent.micro_usd);
  // An unknown price is not zero.
  const price = spent?.unpriced_calls ? (known ? `at least ${known}` : unknown) : known;
  return [tokens && `${few(tokens)} tok`, price].filter(Boolean).join(' · ');
}

/** A bar that is filled to `share`; that of a limit warns when the limit is near. */
export function meter(share, label, { isLimit = false } = {}) {
  const full = Math.min(1, Math.max(0, share));
  const fill = element('span');
  fill.style.width = `${full * 100}%`;
  return element('span', { class: `meter${isLimit && full > 0.9 ? ' full' : ''}`, role: 'img', 'aria-label': label, title: label }, fill);
}

// The state of a run as a whole: how many of its parts ended how, what is under way, and what it waits for.

import { element } from './dom.js';
import { revealed } from './format.js';
import { stateOf } from './tree.js';

/** States in which something is under way, if any call is. */
const BUSY = ['executing', 'deciding', 'aggregating', 'verifying', 'replanning', 'cancelling'];
/** States in which a person is waited for. */
const WAITING = ['waiting_input', 'awaiting_approval'];

/**
 * Counts the nodes of `tree`: those that ended by outcome, the others by state, how many ended, and how many there are.
 * The root stands for the run: it is under way, but not a part to be counted.
 */
export function countsOf({ nodes, root }) {
  const ends = {}, stands = {};
  // A task that waits for an approval or answer below it is not running itself.
  const held = new Set();
  for (const node of nodes.values()) if (!node.status && WAITING.includes(node.state)) for (let above = node.above; above && !held.has(above); above = above.above) held.add(above);
  for (const node of nodes.values()) {
    if (node.state === 'executing' && held.has(node)) continue;
    if (node === root && node.status) continue;
    const of = node.status ? ends : stands, what = node.status ? stateOf(node) : node.state;
    of[what] = (of[what] ?? 0) + 1;
  }
  return { ends, stands, ended: Object.values(ends).reduce((sum, some) => sum + some, 0), all: nodes.size - 1 };
}

/**
 * The state of `run`, whose tree has this `root`; `asks` is the number of its questions, `isHoped` whether a process
 * may still begin to drive it.
 */
export function standingOf(run, root, stands, { asks, isHoped }) {
  if (root.status) return root.status;
  const isStopping = root.state === 'cancelling';
  if (root.paused && !isStopping) return 'paused';
  if (!run.driven && !run.waits) return isHoped ? 'taken_up' : 'interrupted';
  if (isStopping) return 'cancelling';
  // If nothing is under way, a person or another run is waited for. A task that waits for its own calls seems to be
  // under way; the server knows how many calls really are. What is retried later waits for time.
  const isIdle = !stands.parked && (run.in_flight === 0 || !BUSY.some((one) => stands[one]));
  return (isIdle && (asks ? 'asks' : run.held_up && 'held')) || 'running';
}

/** Makes `line` say what `run` waits for, unless that is time or an answer; an unchanged text stays. */
export function showWaiting(line, run, root, standing) {
  const { held_up: heldUp } = root.status ? {} : run;
  const isLeft = standing === 'interrupted', isStopping = root.state === 'cancelling';
  const isAll = standing === 'held';
  const said = isLeft ? `${standing} ${isStopping}` : heldUp ? `${JSON.stringify(heldUp)} ${isAll}` : '';
  if (line.said === said) return;
  line.said = said;
  const resume = element('code', {}, `folio resume ${run.handle}`);
  if (isLeft) line.replaceChildren(isStopping ? 'This run is being cancelled, but no process drives it. To finish, run: ' : 'No process drives this run. To continue where it stopped, run: ', resume);
  else if (heldUp) {
    line.replaceChildren('Waiting: a call of ', element('a', { href: `/runs/${heldUp.by}` }, heldUp.by), ' is writing ', element('code', {}, revealed(heldUp.name)),
      `, which this run writes next. ${isAll ? 'This run' : 'The part that writes it'} continues when that call ends.`);
  } else line.replaceChildren();
}

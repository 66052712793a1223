// How much of its limits a run has used.

import { element } from './dom.js';
import { bytes, dollars, number } from './format.js';

/** What is limited, in words. */
export const LIMITS = { tokens: 'tokens', tokens_in: 'input tokens', tokens_cached: 'cached input tokens', tokens_out: 'output tokens', micro_usd: 'spent', model_calls: 'model calls', tool_calls: 'tool calls', bytes: 'written to journal and pages', nodes: 'nodes' };
/** The parts of a limit at which people are told of it, the highest first. */
const STEPS = [0.8, 0.5];
/** The smallest limit of which people are told: of a few calls, each step would come with a single one. */
const LEAST = 10;

/** An amount of what `what` limits. */
export const figure = (what, n) => ({ micro_usd: dollars, bytes }[what] ?? number)(n);

/** What `root` has used of each of its limits of which it has used much: what is limited, the step, and in words. */
export function uses({ spent = {}, limits = [] }) {
  const { tokens_in: read = 0, tokens_out: made = 0 } = spent;
  return limits.flatMap(({ what, limit, used }) => {
    // Bytes are not part of what events tell as spent; what is only set aside comes back.
    const part = what === 'tokens' ? read + made : what === 'bytes' ? used : spent[what] ?? 0, share = limit > 0 ? part / limit : Number(part > 0);
    const step = limit >= LEAST && STEPS.find((one) => share >= one);
    return step ? [{ what, step, text: `${Math.floor(share * 100)}% of ${what === 'micro_usd' ? 'money' : what === 'bytes' ? 'bytes' : LIMITS[what]} used`, whole: `${figure(what, part)} of ${figure(what, limit)}` }] : [];
  });
}

/** Marks that say so; one warns if it is more than the lowest step. */
export const usesLine = (all) => all.map(({ step, text, whole }) => element('span', { class: step > STEPS.at(-1) ? 'badge' : 'badge calm', title: whole }, text));

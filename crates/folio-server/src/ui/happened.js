// Applies the events of a run to its tree.

/** By the name of an event: its effect on `tree`, and on its `node`, if it has one. */
const DOES = {
  run_started(tree, { at, nodes }) {
    nodes.forEach((made) => tree.add(made));
    tree.root.started_at ??= at;
  },
  expanded(tree, { at, nodes }, node) {
    nodes.forEach((made) => tree.add(made));
    Object.assign(node, { state: 'running_children', started_at: node.started_at ?? at });
  },
  started: (_, { at, attempt, call }, node) => Object.assign(node, { state: 'executing', attempt, call, started_at: node.started_at ?? at }),
  attempt_failed: (_, __, node) => Object.assign(node, { state: 'parked' }),
  finished: (_, { at, status, notes, stop_reason }, node) => Object.assign(node, { state: 'terminal', status, notes, stop_reason, finished_at: at }),
  cancel_requested(tree, _, node) {
    const stop = [node ?? tree.root];
    for (const each of stop) if (!each.status) { each.state = 'cancelling'; tree.touch(each); stop.push(...each.children); }
  },
  told(tree, { at, state, what, text, nodes = [], superseded = [] }, node) {
    nodes.forEach((made) => tree.add(made));
    tree.order(nodes);
    for (const id of superseded) replace(tree, tree.nodes.get(id));
    const one = node ?? tree.root;
    if (what === 'paused' || what === 'continued') {
      one.paused = what === 'paused';
      const below = [one];
      for (const each of below) if (!each.status) { tree.touch(each); below.push(...each.children); }
    } else if (node) {
      if (what === 'asked') node.call = `model, ${text}`;
      Object.assign(node, { state: state ?? node.state, plan_version: node.plan_version || Number(what === 'planned') });
      // A change of limits, or a call that waits for approval, may concern a node that has not begun.
      if (!/^(limits_changed|approval_asked|call_approved|call_rejected)$/.test(what) && node.state !== 'created') node.started_at ??= at;
    }
    tree.touch(one);
  },
};

/** Updates `tree` after an event, `data`. Events that concern no part of it are ignored. */
export function happen(tree, data) {
  const node = tree.nodes.get(data.node_id);
  DOES[data.event]?.(tree, data, node);
  if (!node) return;
  tree.touch(node);
  charge(tree, node, data);
}

/**
 * Marks `node`, and what it contains, as superseded by another version of the plan. The members of a group are
 * reported by themselves.
 */
function replace(tree, node) {
  const gone = node ? [node] : [], isGroup = /^(parallel|sequence)$/.test(node?.kind);
  for (const each of gone) { each.superseded = true; tree.touch(each); if (!isGroup) gone.push(...each.children); }
}

/**
 * Records what `node`, and each node above it, has used up. An event that is replayed says what is used by now, and the
 * page may already know of more.
 */
function charge(tree, node, { spent, spent_above: above = [] }) {
  let one = node;
  for (const told of [spent, ...above]) {
    if (!one || !told) return;
    const more = Object.keys(told).filter((key) => told[key] > (one.spent?.[key] ?? 0));
    if (more.length > 0) { one.spent = { ...one.spent, ...Object.fromEntries(more.map((key) => [key, told[key]])) }; tree.touch(one); }
    one = one.above;
  }
}

// The tree of a run. Only the visible rows are elements: ten thousand nodes cost as much as fifty.

import { now } from './clock.js';
import { element, written } from './dom.js';
import { cost, isWord, mark, meter, number, revealed, span, words } from './format.js';

/** Groups with more members are collapsed at first. */
const LARGE = 100;
/** How many levels are expanded at first. */
const LEVELS = 5;
/** How many rows beyond the visible ones are created. */
const BEYOND = 8;

/** States in which work is under way, as long as a process drives the run. */
const AT_WORK = new Set(['executing', 'running_children', 'deciding', 'aggregating', 'verifying', 'replanning']);

/** Whether a node, or one above it, is paused. */
function isHeld(node) {
  for (let at = node; at; at = at.above) if (at.paused) return true;
  return false;
}

/** Among the calls of a task, one that a person is waited for, if nothing else of it is under way. */
function awaited({ state, children = [] }) {
  const goesOn = state === 'executing' ? children.filter((child) => !child.status) : [];
  return goesOn.some((child) => AT_WORK.has(child.state)) ? undefined : goesOn.find((child) => child.state === 'waiting_input');
}

// A step that had not begun was not replaced: it was dropped, or its plan rejected.
export const stateOf = (node, isDriven = true) => (node.status && node.superseded ? (node.started_at ? 'superseded' : 'not_begun') : node.status) ?? stateBeforeEnd(node, isDriven);
const stateBeforeEnd = (task, isDriven) => {
  const node = awaited(task) ?? task;
  const isStopping = AT_WORK.has(node.state) && isHeld(node);
  return ((node.paused || isStopping) && node.state !== 'executing' ? 'paused' : isStopping && isDriven ? 'pausing' : !isDriven && AT_WORK.has(node.state) ? 'interrupted' : node.approval && node.state === 'waiting_input' ? 'awaiting_approval' : node.state);
};

/** For each limit, how much of it the spending of a node uses up, if it is part of the spending. */
const SPENT = { tokens: (spent) => (spent.tokens_in ?? 0) + (spent.tokens_out ?? 0) };
for (const name of ['tokens_in', 'tokens_cached', 'tokens_out', 'micro_usd', 'model_calls', 'tool_calls']) SPENT[name] = (spent) => spent[name] ?? 0;

/**
 * The used share of a node's fullest limit; `null` if it has none. What was set aside counts as of when the limits
 * were loaded.
 */
function fullness({ limits, spent, status }) {
  if (!limits?.length) return null;
  const used = (one) => { const is = SPENT[one.what]?.(spent); return is === undefined ? one.used : status ? is : Math.max(one.used, is); };
  return Math.max(...limits.map((one) => (one.limit ? used(one) / one.limit : 1)));
}

/** What `node` does, if it does not wait for a call of its own. */
const callOf = (node) => (awaited(node) ? '' : revealed(node.call));

const budgetOf = (share) => `${Math.round(share * 100)}% of its budget`;

export class Tree {
  /**
   * `onselect(node, isByPerson)` is called when another node is selected, `onsift()` when a filter is removed;
   * `mayLeave()` says beforehand whether a person may select another one.
   */
  constructor({ onselect, onopen = () => {}, onsift = () => {}, mayLeave = async () => true, signal }) {
    Object.assign(this, { onselect, onopen, onsift, mayLeave, nodes: new Map(), root: null, selected: null, focused: null, rows: new Map(), approvals: new Map(), flat: [], changed: new Set(), counted: new Set(), sought: '', only: null, isByState: false, isDriven: true, stoodAt: null, keptUntil: null, frame: 0 });
    this.list = element('div', { role: 'tree', 'aria-label': 'Run tree', class: 'rows', onkeydown: (event) => this.key(event), onclick: (event) => this.click(event) });
    this.none = element('p', { class: 'empty', role: 'status' });
    this.scroller = element('div', { class: 'tree', onscroll: () => this.later() }, this.list);
    this.narrow = matchMedia('(max-width: 760px)');
    this.narrow.addEventListener('change', () => this.restructure(), { signal });
    const seen = new ResizeObserver(() => this.later());
    seen.observe(this.scroller);
    signal.addEventListener('abort', () => { seen.disconnect(); cancelAnimationFrame(this.frame); });
  }

  get height() { return this.narrow.matches ? 40 : 28; }

  /** Adds a node after its siblings. */
  add(raw) {
    if (this.nodes.has(raw.node_id)) return;
    const node = { state: 'created', attempt: 0, call: '', notes: '', status: null, started_at: null, finished_at: null, spent: {}, ...raw, children: [] };
    node.above = this.nodes.get(node.parent_id);
    node.level = node.above ? node.above.level + 1 : 1;
    node.above?.children.push(node);
    node.approval = this.approvals.get(node.node_id);
    this.nodes.set(node.node_id, node);
    if (!node.above) this.root = node;
    this.isStale = true;
    this.touch(node.above ?? node);
  }

  /** Notes which nodes wait for an approval rather than an answer, by `asks`: what is asked of people. */
  approve(asks) {
    const before = this.approvals;
    this.approvals = new Map(asks.filter(({ kind }) => kind !== 'question').map((item) => [item.node_id, item]));
    for (const id of new Set([...before.keys(), ...this.approvals.keys()])) {
      const node = this.nodes.get(id);
      if (node) { node.approval = this.approvals.get(id); this.touch(node); }
    }
  }

  /** Sorts children that are among `nodes` into the order of `nodes`. */
  order(nodes) {
    const at = new Map(nodes.map(({ node_id: id }, place) => [id, place]));
    for (const above of new Set(nodes.map(({ node_id: id }) => this.nodes.get(id)?.above))) {
      if (!above?.children.every(({ node_id: id }) => at.has(id))) continue;
      above.children.sort((a, b) => at.get(a.node_id) - at.get(b.node_id));
      for (const child of above.children) child.place = undefined;
      this.restructure();
    }
  }

  isOpen(node) { return node.open ?? (node.children.length > 0 && node.children.length <= LARGE && node.level < LEVELS); }

  touch(node) {
    this.changed.add(node);
    // What a task waits for is its own state.
    if (node.above?.state === 'executing') this.changed.add(node.above);
    for (let at = node; at && !this.counted.has(at); at = at.above) { this.counted.add(at); at.inside = null; }
    if (this.isByState) this.isStale = true;
    this.later();
  }

  /**
   * Sets whether a process drives the run: if not, nothing is under way. `stoodAt` is the time at which its clock
   * stands, if it does.
   */
  drives(isDriven, stoodAt = null) {
    this.stoodAt = stoodAt;
    if (isDriven === this.isDriven) return;
    this.isDriven = isDriven;
    for (const node of this.nodes.values()) if (!node.status) this.changed.add(node);
    this.restructure();
  }

  later() { this.frame ||= requestAnimationFrame(() => { this.frame = 0; this.draw(); }); }

  restructure() {
    this.isStale = true;
    this.later();
  }

  /** Shows only nodes that have `sought` in their title and ended as `only` says, with what contains them. */
  sift({ sought = this.sought, only = this.only }) {
    Object.assign(this, { sought: sought.toLowerCase(), only });
    // Then every event may change what matches.
    this.isByState = only !== null || isWord(this.sought);
    this.restructure();
  }

  get isSifted() { return this.sought !== '' || this.only !== null; }

  has(node) {
    if (this.only && stateOf(node) !== this.only) return false;
    return node.title.toLowerCase().includes(this.sought) || words(stateOf(node, this.isDriven)) === this.sought;
  }

  flatten() {
    this.isStale = false;
    this.flat = [];
    if (!this.root) return;
    let isIn = null;
    if (this.isSifted) {
      isIn = new Set([this.root]);
      for (const node of this.nodes.values()) {
        for (let at = this.has(node) ? node : null; at && !isIn.has(at); at = at.above) isIn.add(at);
      }
    }
    const none = isIn?.size === 1 && !this.has(this.root) ? 'No matching parts. Change or clear the filter.' : '';
    if (this.none.textContent !== none) this.none.textContent = none;
    const stack = [this.root];
    while (stack.length > 0) {
      const node = stack.pop();
      if (isIn && !isIn.has(node)) continue;
      node.at = this.flat.push(node) - 1;
      if (isIn || this.isOpen(node)) for (let i = node.children.length - 1; i >= 0; i--) stack.push(node.children[i]);
    }
    const isShown = (node) => node && this.flat[node.at] === node;
    while (this.focused && !isShown(this.focused)) this.focused = this.focused.above;
    this.focused ??= this.flat[0] ?? null;
  }

  draw() {
    if (this.isStale) this.flatten();
    const { height, flat } = this;
    this.list.style.height = `${flat.length * height}px`;
    const room = this.scroller.clientHeight || 600;
    const from = Math.max(0, Math.floor(this.scroller.scrollTop / height) - BEYOND);
    const to = Math.min(flat.length, Math.ceil((this.scroller.scrollTop + room) / height) + BEYOND);
    const wanted = new Set(flat.slice(from, to));
    // The focused row stays, wherever it is.
    if (this.focused && flat[this.focused.at] === this.focused) wanted.add(this.focused);
    const focused = this.list.contains(document.activeElement) ? document.activeElement : null;
    for (const [node, row] of this.rows) if (!wanted.has(node)) { row.remove(); this.rows.delete(node); }
    let before = null;
    for (const node of [...wanted].sort((a, b) => a.at - b.at)) {
      let row = this.rows.get(node);
      if (!row) {
        row = element('div', { role: 'treeitem', id: `node-${node.node_id}` });
        row.node = node;
        this.rows.set(node, row);
        this.fill(node, row);
      } else if (this.changed.has(node)) this.fill(node, row);
      else if (this.counted.has(node)) this.count(node, row);
      this.place(node, row);
      const next = before ? before.nextSibling : this.list.firstChild;
      if (next !== row) this.list.insertBefore(row, next);
      before = row;
    }
    // A row that is moved in the document loses the focus.
    if (focused?.isConnected && document.activeElement !== focused) focused.focus({ preventScroll: true });
    this.changed.clear();
    this.counted.clear();
  }

  place(node, row) {
    const { above } = node;
    row.style.transform = `translateY(${node.at * this.height}px)`;
    row.setAttribute('aria-level', node.level);
    row.setAttribute('aria-setsize', above ? above.children.length : 1);
    row.setAttribute('aria-posinset', above ? (node.place ??= above.children.indexOf(node) + 1) : 1);
    row.setAttribute('aria-selected', String(node === this.selected));
    row.tabIndex = node === this.focused ? 0 : -1;
    if (node.children.length > 0) row.setAttribute('aria-expanded', String(this.isSifted || this.isOpen(node)));
    row.querySelector('.twist').textContent = node.children.length === 0 ? '' : this.isSifted || this.isOpen(node) ? '▾' : '▸';
  }

  fill(node, row) {
    const state = stateOf(node, this.isDriven);
    const used = cost(node.spent);
    const share = fullness(node);
    const parts = [element('span', { class: 'twist' }), mark(state), written('span', { class: 'title', title: node.title }, node.title), element('span', { class: 'call' }, callOf(node))];
    if (node.attempt > 1) parts.push(element('span', { class: 'time' }, `attempt ${node.attempt}`));
    node.tally = element('span', { class: 'inside' });
    if (node.children.length > 0) parts.push(node.tally);
    if (share !== null && node.level > 1) parts.push(meter(share, budgetOf(share), { isLimit: true }));
    if (used) parts.push(element('span', { class: 'cost', title: used }, cost(node.spent, '$?')));
    node.time = element('span', { class: 'time' });
    row.style.setProperty('--level', node.level - 1);
    row.replaceChildren(...parts, node.time);
    this.clock(node);
    this.count(node, row);
  }

  /** How many nodes there are below `node`, how many of them have ended, and how many failed. */
  inside(node) {
    if (node.inside) return node.inside;
    const sum = { all: 0, ended: 0, failed: 0 };
    for (const child of node.children) {
      const { all, ended, failed } = this.inside(child);
      sum.all += 1 + all;
      sum.ended += Number(Boolean(child.status)) + ended;
      sum.failed += Number(stateOf(child) === 'failed') + failed;
    }
    node.inside = sum;
    return sum;
  }

  /** Shows what is inside of `node`, and names its row: by everything in it, except a time that runs. */
  count(node, row) {
    const { all, ended, failed } = this.inside(node);
    const share = fullness(node), said = [`${number(ended)}/${number(all)}`, failed > 0 && `✗ ${number(failed)}`].filter(Boolean);
    if (node.tally.textContent !== said.join(' ')) node.tally.replaceChildren(said[0], failed > 0 ? element('span', { class: 'failed' }, ` ${said[1]}`) : '');
    node.tally.title = `${number(ended)} of ${number(all)} parts below have ended${failed > 0 ? `, ${number(failed)} failed` : ''}`;
    row.setAttribute('aria-label', [node.title, words(stateOf(node, this.isDriven)), callOf(node), node.attempt > 1 && `attempt ${node.attempt}`, all > 0 && node.tally.title,
      share !== null && node.level > 1 && budgetOf(share), cost(node.spent), node.finished_at && node.time.textContent].filter(Boolean).join(', '));
  }

  /** Whether a node was done in the run that this one was forked from: it took no time here. */
  isKept(node) { return this.keptUntil !== null && Boolean(node.finished_at) && Date.parse(node.finished_at) <= this.keptUntil; }

  clock(node) {
    if (!node.started_at || !node.time) return;
    const end = node.finished_at ? Date.parse(node.finished_at) : this.stoodAt ?? now();
    const text = this.isKept(node) ? 'kept' : span(end - Date.parse(node.started_at));
    if (node.time.textContent !== text) node.time.textContent = text;
  }

  /** Updates the times of unfinished nodes. */
  tick() { for (const node of this.rows.keys()) if (!node.status) this.clock(node); }

  reveal(node) {
    if (this.isStale) this.flatten();
    // A node that a link leads to is shown, whatever the filter.
    if (this.isSifted && this.flat[node.at] !== node) { this.sift({ sought: '', only: null }); this.onsift(); }
    for (let above = node.above; above; above = above.above) if (!this.isOpen(above)) { above.open = true; this.isStale = true; }
    if (this.isStale) this.flatten();
    const top = node.at * this.height, { scroller } = this;
    if (top < scroller.scrollTop) scroller.scrollTop = top;
    else if (top + this.height > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = top + this.height - scroller.clientHeight;
  }

  focus(node) {
    if (!node) return;
    this.focused = node;
    this.reveal(node);
    this.draw();
    const row = this.rows.get(node);
    row?.focus({ preventScroll: true });
    // The tree may be partly outside the window.
    row?.scrollIntoView({ block: 'nearest' });
  }

  select(node, isByPerson = true) {
    this.selected = node;
    if (node) this.reveal(node);
    this.later();
    this.onselect(node, isByPerson);
  }

  /** Selects a node for a person, unless unsaved changes would be lost and are kept; then calls `then`. */
  async choose(node, then = () => {}) {
    if (node !== this.selected && !await this.mayLeave()) return;
    this.select(node);
    then();
  }

  toggle(node, open) {
    node.open = open;
    this.isStale = true;
    this.focus(node);
  }

  key(event) {
    const { node } = event.target;
    if (!node || event.ctrlKey || event.metaKey || event.altKey) return;
    if (this.isStale) this.flatten();
    const page = Math.max(1, Math.floor(this.scroller.clientHeight / this.height) - 1);
    const moves = {
      ArrowDown: () => this.focus(this.flat[node.at + 1]),
      ArrowUp: () => this.focus(this.flat[node.at - 1]),
      PageDown: () => this.focus(this.flat[Math.min(this.flat.length - 1, node.at + page)]),
      PageUp: () => this.focus(this.flat[Math.max(0, node.at - page)]),
      Home: () => this.focus(this.flat[0]),
      End: () => this.focus(this.flat.at(-1)),
      ArrowRight: () => {
        // While a filter is set, everything is expanded.
        const child = this.isSifted ? this.flat[node.at + 1] : node.children[0];
        if (child?.above === node) this.isSifted || this.isOpen(node) ? this.focus(child) : this.toggle(node, true);
      },
      ArrowLeft: () => (!this.isSifted && this.isOpen(node) ? this.toggle(node, false) : this.focus(node.above)),
      Enter: () => this.choose(node, this.onopen),
      ' ': () => this.choose(node),
    };
    if (!moves[event.key]) return;
    event.preventDefault();
    moves[event.key]();
  }

  click(event) {
    const node = event.target.closest('[role=treeitem]')?.node;
    if (!node) return;
    if (event.target.closest('.twist') && node.children.length > 0 && !this.isSifted) { this.toggle(node, !this.isOpen(node)); return; }
    this.focus(node);
    this.choose(node);
  }
}

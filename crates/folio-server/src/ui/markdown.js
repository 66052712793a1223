// The subset of markdown that pages and reports use. Creates elements, never HTML from text.

import { element, wide, written } from './dom.js';

const BOXES = { x: '✓ ', '~': '▸ ', '!': '✗ ', '-': '⊘ ', ' ': '· ' };

/** A line that opens a code block, and the end of a list item that does. */
const FENCE = /^(\s*)(`{3,}(?!`)|~{3,}(?!~))[^`]*$/, OPENED = /^(|.*\s)(`{3,}|~{3,})[\w+#.-]*\s*$/;
/** How many characters of a line are searched for links and the like; nobody writes more than that in one line. */
const LONGEST = 20_000;
const indent = (line) => line.length - line.trimStart().length;

/** What a page says of itself in a comment, with its role in words. */
export const metaOf = (said) => said.replace(/^p\d+ [a-z_]+/, (begin) => begin.replaceAll('_', ' '));

/** `text` with the command of people where a run names the tool by which models read the rest of what was shortened. */
const forPeople = (text) => text.replace(/; use result_read node=(\w+)/g, '; `folio blob $1` prints all').replace(/kept as blob:(\w+); read it with result_read/g, 'kept as blob:$1; read it with `folio blob $1`');

/** `text` as elements. */
export function markdown(text) {
  const made = [];
  const lines = forPeople(text).split('\n');
  const isLast = (tag) => made.at(-1)?.tagName === tag.toUpperCase();
  const last = (tag) => { if (!isLast(tag)) made.push(element(tag)); return made.at(-1); };
  const addTo = (block, line) => block.append(block.hasChildNodes() ? '\n' : '', ...inline(line));
  let rows = null, heading = '';
  // The code block after the line that opens it. It ends at its closing fence, or where the surrounding item ends: at
  // a line that is indented less than `inset`.
  const code = (at, fence, inset) => {
    const closes = new RegExp(`^\\s*${fence}${fence[0]}*\\s*$`);
    const isOut = (line) => line.trim() !== '' && indent(line) < inset;
    let end = at + 1;
    while (end < lines.length && !closes.test(lines[end]) && !isOut(lines[end])) end++;
    const isClosed = end < lines.length && closes.test(lines[end]);
    const margin = inset > 0 && at + 1 < lines.length ? indent(lines[isClosed ? end : at + 1]) : 0;
    const body = lines.slice(at + 1, end).map((line) => line.slice(Math.min(margin, indent(line)))).join('\n');
    return { block: written('pre', {}, body), next: end < lines.length && !isClosed ? end - 1 : end };
  };
  // The content of a list item; a fence at its end opens a code block in it.
  const fill = (item, said, at, inset) => {
    const [, before, fence] = OPENED.exec(said) ?? [];
    item.append(...(heading === 'Pages' ? toPage(before ?? said) : inline(before ?? said)));
    if (!fence) return at;
    const { block, next } = code(at, fence, inset);
    item.append(block);
    return next;
  };
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at];
    let part;
    if (!line.startsWith('|')) rows = null;
    if ((part = /^<!-- (.*) -->$/.exec(line))) made.push(element('p', { class: 'meta' }, metaOf(part[1])));
    else if ((part = /^(#{1,6}) (.*)/.exec(line))) {
      heading = part[2];
      made.push(written(`h${Math.min(part[1].length + 1, 6)}`, {}, ...inline(heading)));
    }
    else if ((part = FENCE.exec(line))) {
      const isIn = part[1] && (isLast('ul') || isLast('ol'));
      const { block, next } = code(at, part[2], isIn ? part[1].length : 0);
      if (isIn) made.at(-1).lastChild.append(block); else made.push(block);
      at = next;
    } else if (line.startsWith('|')) {
      if (!rows) made.push(wide(rows = element('table')));
      const cells = cellsOf(line);
      if (!cells.some((cell) => /[^\s:-]/.test(cell))) {
        if (line.includes('-')) rows.sides ??= cells.map((cell) => /^:?-+:$/.test(cell) && (cell[0] === ':' ? 'middle' : 'end'));
        for (const head of rows.querySelectorAll('th')) side(head, rows);
        continue;
      }
      const tag = /^\|[\s:|-]+$/.test(lines[at + 1]) ? 'th' : 'td';
      rows.append(element('tr', {}, ...cells.map((cell) => written(tag, {}, ...inline(cell)))));
      for (const cell of rows.lastChild.children) side(cell, rows);
    } else if (/^\s{0,3}([-*_])(\s*\1){2,}\s*$/.test(line)) made.push(element('hr'));
    else if ((part = /^(\s*)[-*+] (?:\[(.)\] )?(.*)/.exec(line))) {
      const box = BOXES[part[2]] ?? '';
      const item = element('li', box ? { class: 'box' } : {}, box);
      at = fill(item, part[3], at, part[1].length + 1);
      if (part[1]) item.style.marginInlineStart = `${part[1].length / 2}rem`;
      last('ul').append(item);
    } else if ((part = /^(\s*)(\d{1,9})[.)] (.*)/.exec(line))) {
      const item = element('li', { value: part[2] });
      at = fill(item, part[3], at, part[1].length + 1);
      if (part[1]) item.style.marginInlineStart = `${part[1].length / 2}rem`;
      last('ol').append(item);
    } else if ((part = /^> ?(.*)/.exec(line))) addTo(last('blockquote'), part[1]);
    else if (line.trim() === '') { if (/^(P|BLOCKQUOTE)$/.test(made.at(-1)?.tagName)) made.push(''); }
    else if ((isLast('ul') || isLast('ol')) && /^\s/.test(line)) made.at(-1).lastChild.append('\n', ...inline(line.trim()));
    else addTo(last('p'), line);
  }
  // Now that nothing comes to them any more: each has the writing direction of its text.
  for (const block of made) for (const one of [block, ...(block.children ?? [])]) if (/^(P|LI|BLOCKQUOTE)$/.test(one.tagName) && !one.className.includes('meta')) one.dir = 'auto';
  return made;
}

const cellsOf = (line) => line.replace(/^\||\|\s*$/g, '').split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll('\\|', '|'));
/** Aligns a cell as the line below the header says. */
function side(cell, { sides }) {
  const at = sides?.[cell.cellIndex];
  if (at) cell.classList.add(at);
}

/** A line of a list of pages: the handle becomes a link. */
function toPage(text) {
  const handle = /^p\d+(?= )/.exec(text)?.[0];
  return handle ? [link(handle, `/pages/${handle}`), ...inline(text.slice(handle.length))] : inline(text);
}

/** A character after a backslash: that character and nothing else. */
const ESCAPED = /\\[!-\/:-@[-`{-~]/, ENTITY = /&(?:lt|gt|amp|quot|#39);/;
const CODE = /`[^`\n]+`/, PAGE = /\[p\d{1,9}\](?!\()/;
/** An address, with pairs of parentheses in it: `/wiki/Rust_(fungus)`. */
const BARE = /(?<![\w/])https?:\/\/(?:\\[!-\/:-@[-`{-~]|[^\s<>"'`()\]|*\\]|\([^\s<>"'`()\]|*]{0,200}\)){1,2000}/;
const LINK = /!?\[[^\]\[]{1,500}\]\((?:https?:\/\/|\/)(?:[^()\s]|\([^()\s]{0,200}\)){1,2000}\)/;
const STRONG = /\*\*[^*]+\*\*/, EMPHASIS = /(?<![\w*])\*[^*\s][^*]*\*(?![\w*])/;
const anyOf = (...kinds) => new RegExp(`(${kinds.map(({ source }) => source).join('|')})`);
// Every alternative is bounded: an opening that is never closed is not searched again and again.
const PIECES = anyOf(ESCAPED, ENTITY, CODE, PAGE, STRONG, EMPHASIS, LINK, BARE);
/** The pieces of a text that is not Markdown: a backslash in it is one. */
const PLAIN = anyOf(CODE, PAGE, /(?<![\w/])https?:\/\/[^\s<>"'`)\]|*]{1,2000}/);
const ENTITIES = { '&lt;': '<', '&gt;': '>', '&amp;': '&', '&quot;': '"', '&#39;': "'" };
/** A part of Markdown without marks: what is escaped in it, as it is. */
const unescaped = (text) => text.replace(/\\([!-\/:-@[-`{-~])|&(?:lt|gt|amp|quot|#39);/g, (whole, letter) => letter ?? ENTITIES[whole]);

/** An address in a text as a link, without the punctuation that ends the sentence around it. */
function bare(address) {
  const [to] = /^.*[^.,;:!?]/.exec(address) ?? [address];
  return [link(to, to), address.slice(to.length)];
}
const code = (part) => element('code', {}, part.slice(1, -1));
const toPageOf = (part) => ['[', link(part.slice(1, -1), `/pages/${part.slice(1, -1)}`), ']'];

/**
 * `text` that nobody wrote as Markdown, such as a question or an answer: all of its characters, with what is in
 * backticks as code, and with links.
 */
export function plain(text) {
  if (text.length > LONGEST) return [...plain(text.slice(0, LONGEST)), text.slice(LONGEST)];
  return text.split(PLAIN).flatMap((part, index) => {
    if (index % 2 === 0) return part;
    return part[0] === '`' ? code(part) : part[0] === '[' ? toPageOf(part) : bare(part);
  });
}

/** One line of `text` as elements: code, emphasis and links. */
export function inline(text) {
  if (text.length > LONGEST) return [...inline(text.slice(0, LONGEST)), text.slice(LONGEST)];
  return text.split(PIECES).flatMap((part, index) => {
    if (index % 2 === 0) return part;
    if (part[0] === '\\' || part[0] === '&') return unescaped(part);
    if (part[0] === '`') return code(part);
    if (/^\[p\d+\]$/.test(part)) return toPageOf(part);
    // An image is not loaded: it is a link.
    if (part[0] === '[' || part[0] === '!') return link(...part.slice(part.indexOf('[') + 1, -1).split('](').map(unescaped));
    if (/^https?:/.test(part)) return bare(unescaped(part));
    return part.startsWith('**') ? element('strong', {}, unescaped(part.slice(2, -2))) : element('em', {}, unescaped(part.slice(1, -1)));
  });
}

/** A link within this application, or to another site without a referrer; only its text if it leads nowhere. */
export function link(text, to) {
  // The URL as the browser resolves it counts, not how it begins: `/\elsewhere.example` is not local.
  const url = parsed(to);
  if (!/^https?:$/.test(url?.protocol)) return written('bdi', {}, text);
  return element('a', { href: to, ...(url.origin === location.origin ? {} : { rel: 'noopener noreferrer nofollow', target: '_blank' }) }, text);
}

function parsed(to) {
  try { return new URL(to, location.href); } catch { return null; }
}

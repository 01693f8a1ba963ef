// An editor for SPARQL: a text area with the same text in colours behind it. The text area is the browser's own, so
// that undo, selection, screen readers and phones work as everywhere; the coloured text is only seen.

import { announce, counted, element } from "./dom.js";
import { declaredPrefixes, tokens } from "./lexer.js";
import { suggestions } from "./completion.js";
import { vocabulary } from "./vocabulary.js";

const MOST_COLOURED = 60_000; // characters; longer texts stay plain, so that typing stays fast

export class Editor {
  // `changed` is called with the text after every change, `run` when the user asks to run it.
  constructor({ id, label, describedBy, changed, run }) {
    Object.assign(this, { changed, run, wrong: null, found: [], chosen: -1, last: 0 });
    this.area = element("textarea", {
      id, spellcheck: "false", autocapitalize: "off", autocomplete: "off", wrap: "soft", rows: 8, "aria-label": label,
      "aria-describedby": describedBy, "aria-autocomplete": "list", "aria-haspopup": "listbox",
      on: {
        input: () => this.input(), keydown: (event) => this.key(event), blur: () => this.close(), click: () => this.close(),
      },
    });
    this.colours = element("code", { class: "sparql" });
    this.list = element("ul", { class: "suggestions", id: `${id}-suggestions`, role: "listbox", "aria-label": "Suggestions", hidden: true });
    const behind = element("pre", { "aria-hidden": "true" }, this.colours);
    this.box = element("div", { class: "code" }, behind, this.area);
    this.node = element("div", { class: "editor-box" }, this.box, this.list);
  }

  get text() {
    return this.area.value;
  }

  set text(text) {
    this.area.value = text;
    this.mark(null);
    this.close();
  }

  input() {
    this.wrong = null;
    this.area.removeAttribute("aria-invalid");
    this.colour();
    this.changed(this.text);
    this.suggest(false);
  }

  // Underlines the place of an error: a line and a column, from 1, in characters. null removes the mark.
  mark(place) {
    this.wrong = place?.line ? offsetOf(this.text, place.line, place.column) : null;
    if (this.wrong === null) this.area.removeAttribute("aria-invalid");
    else {
      this.area.setAttribute("aria-invalid", "true");
      this.area.setSelectionRange(this.wrong, this.wrong);
    }
    this.colour();
  }

  colour() {
    const text = this.text;
    // A last line that is empty has a height only if something stands in it.
    const end = text.endsWith("\n") || !text ? ["\u200b"] : [];
    if (text.length > MOST_COLOURED) return this.colours.replaceChildren(text, ...end);
    const all = tokens(text);
    const wrong = this.wrong === null ? null : wrongToken(all, this.wrong);
    this.colours.replaceChildren(...all.map((token) => coloured(token, token === wrong)), ...end);
  }

  // Suggestions

  async suggest(asked) {
    const turn = (this.last += 1);
    const terms = await vocabulary();
    if (turn !== this.last || document.activeElement !== this.area) return;
    const position = this.area.selectionStart;
    if (position !== this.area.selectionEnd) return this.close();
    this.found = suggestions(this.text, position, terms, asked);
    if (!this.found.length) return this.close();
    this.list.replaceChildren(...this.found.map((one, place) => element("li", {
      id: `${this.list.id}-${place}`, role: "option", "aria-selected": "false",
      on: { mousedown: (event) => (event.preventDefault(), this.accept(place)) },
    }, element("span", {}, one.label), element("small", {}, one.detail))));
    this.list.hidden = false;
    this.area.setAttribute("aria-controls", this.list.id);
    this.put(this.found[0].from);
    this.choose(asked ? 0 : -1);
    announce(counted(this.found.length, "suggestion"));
  }

  // Places the list below a position of the text, inside the editor.
  put(position) {
    const at = rectangleAt(this.colours, position);
    const around = this.node.getBoundingClientRect();
    if (!at) return;
    const room = Math.max(0, around.width - Math.min(around.width, 420));
    this.list.style.left = `${Math.max(0, Math.min(at.left - around.left, room))}px`;
    this.list.style.top = `${at.bottom - around.top + 4}px`;
  }

  choose(place) {
    this.chosen = place;
    [...this.list.children].forEach((item, number) => item.setAttribute("aria-selected", String(number === place)));
    const item = this.list.children[place];
    if (item) {
      this.area.setAttribute("aria-activedescendant", item.id);
      item.scrollIntoView({ block: "nearest" });
    } else this.area.removeAttribute("aria-activedescendant");
  }

  accept(place) {
    const { from, text, prefix } = this.found[place];
    this.replace(from, this.area.selectionStart, text);
    if (prefix && !declaredPrefixes(this.text).has(prefix[0])) {
      const line = `PREFIX ${prefix[0]}: <${prefix[1]}>\n`;
      const caret = this.area.selectionStart;
      this.replace(0, 0, line);
      this.area.setSelectionRange(caret + line.length, caret + line.length);
    }
    this.last += 1;
    this.close();
  }

  // Replaces a part of the text in a way that the browser can undo.
  replace(from, to, text) {
    this.area.focus();
    this.area.setSelectionRange(from, to);
    if (document.execCommand("insertText", false, text)) return;
    this.area.setRangeText(text, from, to, "end");
    this.input();
  }

  close() {
    this.list.hidden = true;
    this.found = [];
    this.chosen = -1;
    this.area.removeAttribute("aria-controls");
    this.area.removeAttribute("aria-activedescendant");
  }

  key(event) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      this.close();
      return this.run();
    }
    if (event.key === " " && event.ctrlKey) {
      event.preventDefault();
      return this.suggest(true);
    }
    if (!this.found.length) return;
    const number = this.found.length;
    const moves = { ArrowDown: (this.chosen + 1) % number, ArrowUp: (Math.max(this.chosen, 0) + number - 1) % number };
    const accepts = (event.key === "Enter" && this.chosen >= 0) || (event.key === "Tab" && !event.shiftKey);
    if (event.key in moves) this.choose(moves[event.key]);
    else if (accepts) this.accept(Math.max(this.chosen, 0));
    else if (event.key === "Escape") this.close();
    else if (["ArrowLeft", "ArrowRight", "Home", "End"].includes(event.key)) return this.close();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

const PLAIN = new Set(["space", "sign", "other"]);
const coloured = ({ kind, text }, wrong = false) =>
  wrong ? element("span", { class: `${kind} wrong` }, text) : PLAIN.has(kind) ? text : element("span", { class: kind }, text);

// A query in colours, to read.
export const colouredQuery = (text) => element("code", { class: "sparql" }, ...tokens(text).map((token) => coloured(token)));

// The agent counts characters, JavaScript units of UTF-16.
function offsetOf(text, line, column) {
  const lines = text.split("\n");
  if (line > lines.length) return text.length;
  const before = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
  return before + [...lines[line - 1]].slice(0, column - 1).join("").length;
}

// The token at a position; at the end of a line or of the text, the one before it.
function wrongToken(all, position) {
  const at = all.find(({ start, text }) => position < start + text.length);
  if (at && at.kind !== "space") return at;
  return all.findLast(({ start, kind }) => start < position && kind !== "space") ?? at;
}

function rectangleAt(node, position) {
  const walker = document.createTreeWalker(node, NodeFilter.SHOW_TEXT);
  for (let text; (text = walker.nextNode()); position -= text.length) {
    if (position > text.length) continue;
    const range = document.createRange();
    range.setStart(text, position);
    range.setEnd(text, Math.min(position + 1, text.length));
    return range.getBoundingClientRect();
  }
  return null;
}

// Draws a plan: operators with what they store and the time they take, and the delta rules beside them.
//
// Time is measured per term of the delta rules: from the operator that changes to the operator where deltas are
// gathered. The operators between run as one function, so the width of an edge shows the time that passes it.

import { read } from "./agent.js";
import { bytes, count, counted, element, seconds, setText, shape } from "./dom.js";
import { shortener } from "./terms.js";

const WIDTH = 232;
const PAD = 12;
const LINE = 17;
const GAP = { x: 22, y: 38 };
const LINES = 4;
const SMALLEST = 0.72; // scale; a picture that would need a smaller one is scrolled
const AGAIN = 3000;
const KINDS = { scan: "pattern", leftjoin: "optional", semi: "test", names: "graph names", listing: "listing" };

const context = document.createElement("canvas").getContext("2d");

export function showPlan(panel, path, query) {
  const problem = element("p", { class: "notice", role: "alert", hidden: true });
  const place = element("div");
  panel.append(problem, place);
  let timer = 0;
  let ended = false;
  let drawn = null;
  const again = async () => {
    try {
      const plan = await read(path);
      if (ended) return;
      const same = drawn && drawn.signature === signature(plan.root);
      if (!same) drawn = drawPlan(place, plan, query);
      else drawn.update(plan);
      problem.hidden = true;
    } catch (error) {
      problem.hidden = false;
      setText(problem, error.message);
    }
    if (!ended) timer = setTimeout(again, AGAIN);
  };
  again();
  return () => {
    ended = true;
    clearTimeout(timer);
  };
}

const steps = (step) => [step, ...step.inputs.flatMap(steps)];
const signature = (root) => JSON.stringify(steps(root).map((step) => [step.name, step.words]));

// Draws a plan in place of an element's content; returns a function that updates its numbers.
export function drawPlan(place, plan, query) {
  const short = shortener(query);
  const shortened = (text) => text.replace(/<([^<>"{}|^`\\\s]+)>/g, (_, iri) => {
    const { lead, local } = short(iri);
    return lead + local;
  });
  const sans = getComputedStyle(document.body).fontFamily;
  const boxes = new Map();
  const root = arrange(plan.root, null, shortened, sans, plan.costs !== null, boxes);
  const { width, height } = layOut(root);

  const rules = new Map();
  const list = element("ul", { class: "rules" });
  for (const box of boxes.values()) {
    const button = element("button", { type: "button", title: box.step.rule.join("\n"), on: { click: () => select(box, true) } },
      ...box.step.rule.map((line, number) => element("span", { class: number ? "note" : "formula" }, ...formula(shortened(line.trim())))));
    rules.set(box, element("li", {}, button));
  }
  list.append(...rules.values());

  const picture = shape("svg", { class: "plan", viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": `Plan with ${counted(boxes.size, "operator")}` });
  const edges = shape("g", { class: "edges" });
  picture.append(edges);
  for (const box of boxes.values()) {
    if (box.parent) edges.append((box.edge = edge(box)));
    picture.append(drawBox(box, plan.costs !== null, () => select(box, false)));
  }
  const costs = element("tbody");
  const measured = element("div", { class: "measured" });
  const scroll = element("div", { class: "scroll picture", tabindex: "0", role: "region", "aria-label": "Drawing of the plan" }, picture);
  place.replaceChildren(
    element("div", { class: "split" },
      element("div", {}, scroll, measured),
      element("aside", { "aria-labelledby": "rules-title" },
        element("h2", { id: "rules-title" }, "Delta rules"), list,
        element("details", {}, element("summary", {}, "Notation"), ...plan.legend.map((line) => element("p", {}, line.trim()))))));
  fit(picture, scroll, width, height);

  function select(box, fromList) {
    for (const [other, item] of rules) {
      other.group.classList.toggle("chosen", other === box);
      item.classList.toggle("chosen", other === box);
    }
    (fromList ? box.group : rules.get(box)).scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  function update(now) {
    const byNumber = new Map(steps(now.root).map((step) => [step.number, step]));
    for (const box of boxes.values()) box.step = byNumber.get(box.step.number) ?? box.step;
    drawCosts(now, boxes, measured, costs);
  }
  update(plan);
  return { signature: signature(plan.root), update };
}

// Layout

function arrange(step, parent, shortened, sans, timed, boxes) {
  const box = { step, parent, x: 0, y: 0 };
  boxes.set(step.number, box);
  box.lines = wrapped(labelOf(step, shortened), `13.5px ${sans}`, WIDTH - 2 * PAD);
  box.height = PAD + LINE + 3 + box.lines.length * LINE + (step.stored.length ? 16 : 0) + (timed ? 16 : 0) + PAD - 2;
  box.children = step.inputs.map((input) => arrange(input, box, shortened, sans, timed, boxes));
  return box;
}

function labelOf(step, shortened) {
  return shortened(step.words.replace(" in the union of all graphs", ""));
}

function wrapped(text, font, width) {
  context.font = font;
  const fits = (line) => context.measureText(line).width <= width;
  const lines = [];
  let line = "";
  for (const word of text.split(" ")) {
    const longer = line ? `${line} ${word}` : word;
    if (fits(longer)) {
      line = longer;
      continue;
    }
    if (line) lines.push(line);
    line = word;
    while (!fits(line)) {
      let cut = line.length - 1;
      while (cut > 1 && !fits(line.slice(0, cut))) cut -= 1;
      lines.push(line.slice(0, cut));
      line = line.slice(cut);
    }
  }
  lines.push(line);
  if (lines.length <= LINES) return lines;
  return [...lines.slice(0, LINES - 1), `${lines[LINES - 1].slice(0, -1)}…`];
}

// Places parents above the middle of their inputs; a row is as high as its highest box.
function layOut(root) {
  const heights = [];
  const measure = (box, depth) => {
    box.depth = depth;
    heights[depth] = Math.max(heights[depth] ?? 0, box.height);
    for (const child of box.children) measure(child, depth + 1);
    const below = box.children.reduce((sum, child) => sum + child.span + GAP.x, -GAP.x);
    box.span = Math.max(WIDTH, below);
  };
  measure(root, 0);
  const put = (box, left) => {
    box.y = heights.slice(0, box.depth).reduce((sum, height) => sum + height + GAP.y, 1);
    const below = box.children.reduce((sum, child) => sum + child.span + GAP.x, -GAP.x);
    let x = left + Math.max(0, (box.span - below) / 2);
    for (const child of box.children) {
      put(child, x);
      x += child.span + GAP.x;
    }
    const first = box.children[0];
    const last = box.children.at(-1);
    box.x = first ? (first.x + last.x) / 2 : left;
  };
  put(root, 1);
  return { width: root.span + 2, height: heights.reduce((sum, height) => sum + height + GAP.y, -GAP.y) + 2 };
}

function fit(picture, scroll, width, height) {
  const room = scroll.clientWidth - 40;
  const scale = Math.max(SMALLEST, Math.min(1, room > 0 ? room / width : 1));
  picture.setAttribute("width", Math.round(width * scale));
  picture.setAttribute("height", Math.round(height * scale));
}

// Shapes

function edge(box) {
  const [x1, y1] = [box.x + WIDTH / 2, box.y];
  const [x2, y2] = [box.parent.x + WIDTH / 2, box.parent.y + box.parent.height];
  const middle = y1 - GAP.y / 2;
  return shape("path", { d: `M${x1} ${y1} C${x1} ${middle} ${x2} ${y2 + GAP.y / 2} ${x2} ${y2}`, "stroke-width": 1.5 });
}

function drawBox(box, timed, select) {
  const { step } = box;
  const text = (line, y, attributes) => shape("text", { x: PAD, y, ...attributes }, line);
  const stored = step.stored.length > 0;
  box.size = text("", box.height - (timed ? 27 : 11), { class: "size" });
  box.time = text("", box.height - 11, { class: "time" });
  box.share = shape("rect", { class: "share", x: 0, y: box.height - 4, width: 0, height: 4 });
  box.title = shape("title", {}, step.words);
  // The label of the group says all of this in one sentence.
  const seen = shape("g", { "aria-hidden": "true" },
    box.title,
    shape("rect", { class: "back", width: WIDTH, height: box.height, rx: 8 }),
    shape("clipPath", { id: `clip-${step.number}` }, shape("rect", { width: WIDTH, height: box.height, rx: 8 })),
    shape("g", { "clip-path": `url(#clip-${step.number})` }, box.share),
    text(step.name, PAD + 11, { class: "name" }),
    shape("text", { x: WIDTH - PAD, y: PAD + 11, class: "kind", "text-anchor": "end" }, KINDS[step.kind] ?? step.kind),
    ...box.lines.map((line, number) => text(line, PAD + LINE + 14 + number * LINE, { class: "words" })),
    box.size, box.time);
  box.group = shape("g", {
    class: `box${stored ? " kept" : ""}`, transform: `translate(${box.x} ${box.y})`, tabindex: 0, role: "group", "aria-roledescription": "operator",
    on: { focus: select, click: select },
  }, seen);
  return box.group;
}

// `π_{?a}(ΔJ)`: the part in braces after _ is a subscript. Few fonts have ⟕, so it is drawn as ⋈ with a bracket.
const signs = (text) => text.split("⟕").flatMap((part, number) =>
  number ? [element("span", { class: "outer", role: "img", "aria-label": "left outer join" }, "⋈"), part] : [part]);

function formula(text) {
  const parts = [];
  let rest = text;
  for (;;) {
    const at = rest.indexOf("_{");
    if (at < 0) return [...parts, ...signs(rest)];
    let depth = 0;
    let end = at + 1;
    do {
      if (rest[end] === "{") depth += 1;
      if (rest[end] === "}") depth -= 1;
      end += 1;
    } while (depth && end < rest.length);
    parts.push(...signs(rest.slice(0, at)), element("sub", {}, rest.slice(at + 2, end - 1)));
    rest = rest.slice(end);
  }
}

// Numbers

function drawCosts({ costs, epoch }, boxes, measured, body) {
  const terms = costs ?? [];
  const total = terms.reduce((sum, cost) => sum + cost.seconds, 0);
  const through = new Map([...boxes.keys()].map((number) => [number, 0]));
  const own = new Map([...boxes.keys()].map((number) => [number, []]));
  for (const cost of terms) {
    own.get(cost.at)?.push(cost);
    for (let box = boxes.get(cost.at); cost.to !== null && box && box.step.number !== cost.to; box = box.parent) {
      through.set(box.step.number, through.get(box.step.number) + cost.seconds);
    }
  }
  const percent = (part) => (total ? `${((100 * part) / total).toFixed(part / total < 0.1 ? 1 : 0)} %` : "0 %");
  for (const [number, box] of boxes) {
    const { step } = box;
    setText(box.size, step.stored.map((kept) => (kept.rows === null ? "stored" : `${counted(kept.rows, "row")}, ${bytes(kept.bytes)}`)).join(" + "));
    const mine = own.get(number).filter((cost) => cost.times);
    const spent = mine.reduce((sum, cost) => sum + cost.seconds, 0);
    box.share.setAttribute("width", total ? (WIDTH * spent) / total : 0);
    const over = through.get(number);
    const here = mine.length ? `${percent(spent)} of the time, ${seconds(spent)}` : over ? `${percent(over)} passes through` : "";
    setText(box.time, box.parent || !total ? here : `${here && `${here}; `}${seconds(total)} in total`);
    box.edge?.setAttribute("stroke-width", (1.5 + (total ? (7 * over) / total : 0)).toFixed(2));
    const stored = step.stored.map((kept) => `stores ${kept.what}${kept.rows === null ? "" : `, ${counted(kept.rows, "row")}, ${bytes(kept.bytes)}`}`);
    const words = [`${step.name}: ${step.words}`, `binds ${step.variables.join(" ") || "no variables"}`, ...stored, ...(mine.length ? [`${percent(spent)} of the time`] : [])];
    setText(box.title, words.join("\n"));
    box.group.setAttribute("aria-label", words.join("; "));
  }
  if (costs === null) {
    const why = "The time of this view is not measured separately: it is processed together with other views of the same shape, or in parts that share no variable.";
    measured.replaceChildren(...(epoch === undefined ? [] : [element("p", { class: "hint" }, why)]));
    return;
  }
  if (!body.isConnected) {
    measured.replaceChildren(
      element("h2", {}, "Time spent"),
      element("p", { class: "hint" }, "Per term of the delta rules: from the operator that changes to the operator where deltas are gathered. Operators between them run as one function. Counts the epochs processed live since the agent started."),
      element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Time spent" }, element("table", { class: "costs" },
        element("thead", {}, element("tr", {}, ...[["Term"], ["Runs", "number"], ["Changed rows", "number wide"], ["Per run", "number"], ["Total", "number wide"], ["Share", "number"]].map(
          ([title, kind]) => element("th", { scope: "col", class: kind }, title)))),
        body)));
  }
  const name = (number) => boxes.get(number)?.step.name ?? "?";
  body.replaceChildren(...terms.toSorted((a, b) => b.seconds - a.seconds).map((cost) => element("tr", {},
    element("th", { scope: "row" }, cost.to === null ? `rows stored by ${name(cost.at)}` : cost.at === cost.to ? `Δ${name(cost.at)}` : `Δ${name(cost.at)} → Δ${name(cost.to)}`),
    element("td", { class: "number" }, count(cost.times)),
    element("td", { class: "number wide" }, count(cost.rows)),
    element("td", { class: "number" }, cost.times ? seconds(cost.seconds / cost.times) : "–"),
    element("td", { class: "number wide" }, seconds(cost.seconds)),
    element("td", { class: "number" }, percent(cost.seconds)))));
}

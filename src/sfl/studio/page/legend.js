/** Small things on the map: legend, scale, tip at the pointer, and a line that says what the mouse does. */

import { RAMPS, scaleOf } from "./colours.js";
import { byId, el, fill, number, percent } from "./dom.js";
import { placeAt, placeValue, THRESHOLDS, usedRange } from "./fieldlayer.js";
import { checkpointOf } from "./state.js";

export class Legend {
  /** @param {import("./state.js").State} state @param {import("./map.js").MapPanel} panel @param {any} source */
  constructor(state, panel, source) {
    [this.state, this.panel, this.source] = [state, panel, source];
    state.watch(
      ["graph", "map", "colourBy", "filters", "layers", "field", "fields", "thresholds", "theme", "session"],
      () => this.showLegend(),
    );
    state.watch(["hover", "picked", "field"], () => this.showTip());
    state.watch(["tool", "map"], () => this.showTool());
    panel.onMove(() => this.showScale());
    byId("legend-toggle").addEventListener("click", () => byId("legend-card").toggleAttribute("data-open"));
    byId("legend-toggle").addEventListener("click", () => this.showToggle());
    this.showToggle();
    panel.box.addEventListener("pointermove", (event) => this.follow(event));
    this.showScale();
  }

  showLegend() {
    const { field, fields, map } = this.state.values;
    const box = byId("legend");
    byId("legend-card").hidden = !this.panel.shownMap || !map;
    if (byId("legend-card").hidden) return;
    const { look } = this.panel;
    const parts = field && fields ? this.fieldParts(fields, field) : look ? this.graphParts(look.legend) : [];
    fill(box, el("div", {}, ...parts), ...this.coverageParts(), ...this.signs());
  }

  fieldParts({ score, range }, { values }) {
    const { thresholds } = this.state.values;
    const [low, high] = usedRange(range, values);
    const ticks = Object.entries(thresholds).filter(
      ([name, value]) => THRESHOLDS[name] && value >= low && value <= high,
    ).map(([name, value]) =>
      el(
        "i",
        {
          class: "tick",
          style: `left:${(100 * (value - low)) / (high - low)}%;background:${THRESHOLDS[name].colour}`,
          title: `${name} ${value}`,
        },
      ));
    return [
      el("span", {}, `${score ?? "score"} of every place to the marked one`),
      scaleBar("viridis", number(low), number(high), ticks),
    ];
  }

  graphParts({ title, ramp, low, high, entries, note }) {
    const items = entries.map(({ colour, text }) => el(
      "li",
      {},
      el("i", { class: "swatch", style: `background:${colour}` }),
      text,
    ));
    const parts = [
      el("span", {}, title),
      ramp && scaleBar(ramp, low, high, []),
      items.length > 0 && el("ul", {}, ...items),
      el("span", { class: "quiet" }, note),
    ];
    return parts.filter(Boolean);
  }

  coverageParts() {
    const { graph, layers, field } = this.state.values;
    if (!layers.coverage || !graph?.coverage?.visits || field) return [];
    const { low, high } = scaleOf(graph.coverage.visits.filter(Boolean), true);
    return [el(
      "div",
      {},
      el("span", {}, "visits of a square (logarithmic)"),
      scaleBar("cividis", number(low), number(high), []),
    )];
  }

  /** What the signs on the map mean, as far as they are there. */
  signs() {
    const { graph, layers, map, filters, session, field } = this.state.values;
    const signs = [];
    if (map.start) signs.push(el("li", {}, el("i", { class: "home" }, "S"), "start of training"));
    if (graph?.frontier.length && layers.frontier && !field && !session) {
      signs.push(el(
        "li",
        { title: graph.frontier_rule ?? "" },
        el("i", { class: "frontier" }),
        `frontier (${number(graph.frontier.length)})`,
      ));
    }
    if (!filters && !field && this.panel.look?.removed.length) signs.push(el(
      "li",
      {},
      el("i", { class: "removed" }),
      "filtered out",
    ));
    if (session) signs.push(el("li", {}, el("i", { class: "believed" }), "believes to be here"));
    return signs.length ? [el("ul", { class: "signs" }, ...signs)] : [];
  }

  showScale() {
    const { map } = this.state.values;
    const box = byId("scale");
    box.hidden = !this.panel.shownMap;
    if (box.hidden) return;
    const about = 90 / this.panel.view.scale;
    const power = 10 ** Math.floor(Math.log10(about));
    const whole = map.kind === "grid" && about > 0.5;
    const length = whole ? Math.max(1, Math.round(about)) : [5, 2, 1].find((times) => times * power <= about) * power;
    const unit = length === 1 ? map.unit : `${map.unit}s`;
    fill(box, el("i", { style: `width:${length * this.panel.view.scale}px` }), `${number(length)} ${unit}`);
  }

  showTool() {
    const { tool, map } = this.state.values;
    for (const name of ["look", "send"]) byId(`tool-${name}`).setAttribute("aria-checked", String(name === tool));
    byId("map").dataset.tool = tool;
    const canSend = this.source.live;
    byId("tools").hidden = !canSend;
    byId("hint").hidden = !map || map.kind === "other";
    byId("hint").textContent = hint(tool, canSend, matchMedia("(pointer: coarse)").matches);
  }

  /** Where there is little room the legend is shown when one asks for it. */
  showToggle() {
    byId("legend-toggle").setAttribute("aria-expanded", String(byId("legend-card").hasAttribute("data-open")));
  }

  follow(event) {
    const box = this.panel.box.getBoundingClientRect();
    this.pointer = [event.clientX - box.left, event.clientY - box.top];
    const { field, fields, hover, session } = this.state.values;
    if (field && fields?.places && hover === null && !session) this.showValue(field, fields);
    this.placeTip();
  }

  /** The score of the square under the pointer, for each heading where they differ in more than the eye sees. */
  showValue(field, fields) {
    const { map } = this.state.values;
    const [x, y] = this.panel.view.world(...this.pointer);
    const place = placeAt(fields.places, map.kind, x, y);
    const tip = byId("tip");
    tip.hidden = place === null;
    if (tip.hidden) return;
    const { headings } = fields.places;
    const turned = field.values[place].map((value, heading) => `${Math.round(headings[heading])}° ${number(value)}`);
    const mean = placeValue(field.values[place], "mean");
    fill(
      tip,
      el(
        "div",
        {},
        el("strong", {}, `${fields.score ?? "score"} ${number(mean)}`),
        headings.length > 1 && el("p", { class: "quiet" }, turned.join(" · ")),
      ),
    );
  }

  showTip() {
    const { hover, graph, run, map } = this.state.values;
    const tip = byId("tip");
    // A landmark that was clicked is shown in the panel.
    tip.hidden = hover === null || !graph || hover === this.state.values.picked;
    if (tip.hidden) return;
    const checkpoint = checkpointOf(this.state, run);
    const address = this.source.picture(run, hover, checkpoint, graph.env_steps);
    const lines = figures(graph, hover, map).map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]);
    fill(
      tip,
      address && pictureOf(address),
      el("div", {}, el("strong", {}, `Landmark ${hover}`), el("dl", {}, ...lines.flat())),
    );
    this.placeTip();
  }

  placeTip() {
    const tip = byId("tip");
    if (tip.hidden || !this.pointer) return;
    const [left, top] = this.pointer;
    const { width, height } = this.panel.view;
    tip.style.left = `${left + 16 + tip.offsetWidth > width ? Math.max(0, left - 16 - tip.offsetWidth) : left + 16}px`;
    tip.style.top = `${Math.max(0, Math.min(height - tip.offsetHeight, top + 12))}px`;
  }
}

/** What mouse or finger do. */
function hint(tool, canSend, touched) {
  if (tool === "send") return touched ? "Tap a start, then a goal" : "Drag from a start to a goal, or click the two";
  if (touched) return "Tap a place for its field, drag to pan, pinch to zoom";
  return `Click a place for its field, drag to pan, ${canSend ? "Shift-drag to send the agent" : "wheel to zoom"}`;
}

function scaleBar(ramp, low, high, ticks) {
  const colours = RAMPS[ramp].filter((_, place) => place % 4 === 0 || place === RAMPS[ramp].length - 1);
  const bar = el("div", { class: "bar", style: `background:linear-gradient(to right,${colours.join(",")})` }, ...ticks);
  return el("div", { class: "ramp" }, el("span", {}, low), bar, el("span", {}, high));
}

/** A picture that leaves no broken frame where the server has none. */
export function pictureOf(address, alt = "") {
  return el("img", { src: address, alt, draggable: "false", onerror: (event) => event.target.remove() });
}

/** What is known of a landmark, as pairs of name and text. */
export function figures(graph, id, map) {
  const { landmarks, edges } = graph;
  const touching = [];
  edges.source.forEach(
    (source, edge) => (source === id || edges.target[edge] === id) && edges.in_force[edge] && touching.push(edge),
  );
  const tried = touching.map((edge) => edges.success[edge]).filter((share) => share !== null);
  const mean = tried.length ? percent(tried.reduce((sum, share) => sum + share, 0) / tried.length) : "–";
  const digits = (value) => (map?.kind === "grid" ? String(value) : number(Math.round(value)));
  return [
    ["visits", number(landmarks.visits[id])],
    ["added at step", number(landmarks.added[id])],
    ["edges", number(touching.length)],
    ["edge success", mean],
    ["component", number(landmarks.component[id])],
    ["place", `${digits(landmarks.x[id])}, ${digits(landmarks.y[id])}`],
    ["heading", `${Math.round(landmarks.degrees[id])}°`],
  ];
}

/** The tab of a place: the landmark that was picked, and the field from there with its thresholds. */

import { byId, el, fill, icon, number, percent, shareOf } from "./dom.js";
import { placeValue, THRESHOLDS } from "./fieldlayer.js";
import { figures, pictureOf } from "./legend.js";
import { checkpointOf, currentRun } from "./state.js";

const HEADINGS = { mean: "mean of headings", best: "best heading", each: "each heading" };

const LISTED = 200; // landmarks in the list of a world without a map

export class PlacePanel {
  /**
   * @param {import("./state.js").State} state @param {any} source
   * @param {import("./acts.js").Acts} acts
   */
  constructor(state, source, acts) {
    [this.state, this.source, this.acts] = [state, source, acts];
    this.box = byId("panel-place");
    this.parts = {
      overview: el("section"),
      landmark: el("section"),
      field: el("section"),
      renewing: el("p", { class: "quiet renewing", data: { testid: "renewing" } }),
      thresholds: el("section"),
    };
    fill(this.box, ...Object.values(this.parts));
    state.watch(["runs", "run", "graph", "map", "reference"], () => this.showOverview());
    state.watch(["picked", "graph", "map", "run"], () => this.showLandmark());
    state.watch(["reference", "field", "fields", "headings", "run", "map"], () => this.showField());
    state.watch(["graph"], () => state.values.reference ?? this.showField());
    state.watch(["field", "renewing"], () => this.showRenewing());
    state.watch(["graph", "reference"], () => this.makeThresholds());
    state.watch(["thresholds", "field", "headings"], () => this.showThresholds());
  }

  /** The run at a glance, while no place is looked at. */
  showOverview() {
    const run = currentRun(this.state);
    const { graph, reference, map } = this.state.values;
    this.parts.overview.hidden = !run || reference !== null;
    if (this.parts.overview.hidden) return;
    const lines = [
      ["agent", run.agent],
      ["trained", `${number(run.env_steps)} of ${number(run.planned_steps)} steps, ${run.state}`],
      ...(graph ? graphFacts(graph) : []),
    ];
    fill(this.parts.overview,
      el("h2", {}, run.title),
      el(
        "dl",
        { data: { testid: "overview" } },
        ...lines.flatMap(([name, text]) => [el("dt", {}, name), el("dd", {}, text)]),
      ),
      graph?.note && el("p", { class: "quiet" }, graph.note),
      graph && map?.kind === "other" && landmarkList(graph));
  }

  showLandmark() {
    const { picked, graph, map, run } = this.state.values;
    this.parts.landmark.hidden = picked === null || !graph || picked >= graph.landmarks.x.length;
    if (this.parts.landmark.hidden) return;
    const address = this.source.picture(run, picked, checkpointOf(this.state, run), graph.env_steps);
    const lines = figures(graph, picked, map).map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]);
    fill(
      this.parts.landmark,
      el("h2", {}, `Landmark ${picked}`),
      el(
        "div",
        { class: "landmark", data: { testid: "landmark" } },
        address && pictureOf(address, `What is seen at landmark ${picked}`),
        el("dl", {}, ...lines.flat()),
      ),
    );
  }

  showField() {
    const { reference, fields, field } = this.state.values;
    const run = currentRun(this.state);
    const score = fields?.score ?? this.state.values.graph?.score ?? "Similarity";
    if (!reference) {
      fill(this.parts.field, el("h2", {}, `${score} field`), el("p", { class: "lead" }, this.invitation(run)));
      return;
    }
    fill(
      this.parts.field,
      el(
        "h2",
        {},
        `${score} field`,
        el(
          "button",
          {
            class: "plain",
            data: { testid: "clear-field" },
            title: "Clear (Esc)",
            "aria-label": "Clear the field",
            onclick: () => this.acts.look(null, null),
          },
          icon("close"),
        ),
      ),
      this.progress(fields, field),
      field && this.where(reference, field),
      field && this.headingChoice(reference),
      field && this.shownAs(),
    );
  }

  invitation(run) {
    if (this.state.values.map?.kind === "other") return "A field needs a map, which this environment does not have.";
    if (!run?.has_field) return "This agent has no score that compares two observations.";
    const what = "every other place is coloured by how alike the agent finds the two";
    return `Click a place on the map: ${what}. Its thresholds appear as outlines that can be moved.`;
  }

  progress(fields, field) {
    const lead = (text) => el("p", { class: "lead", data: { testid: "field-state" } }, text);
    if (!fields || (fields.state === "ready" && !field)) return lead("Asking the agent …");
    if (fields.state === "ready") return fields.reason ? el("p", { class: "quiet" }, fields.reason) : null;
    if (fields.state === "impossible") return lead(fields.reason ?? "There is no field of this run.");
    const share = percent((fields.done || 0) / (fields.total || 1));
    return el("div", { data: { testid: "field-state" } },
      el("p", { class: "lead" }, `The agent looks around: ${share} done. This is made once for a checkpoint.`),
      el("progress", { max: String(fields.total || 1), value: String(fields.done || 0) }));
  }

  /** That training has gone on, and the field on the map is of the checkpoint before. */
  showRenewing() {
    const { field, renewing } = this.state.values;
    this.parts.renewing.hidden = !field || !renewing;
    if (this.parts.renewing.hidden) return;
    const done = percent((renewing.done || 0) / (renewing.total || 1));
    const before = `This is the field at step ${number(field.env_steps)}`;
    this.parts.renewing.textContent = `${before}; that of the newest checkpoint is being made (${done}).`;
  }

  where(asked, { reference, exact }) {
    const near = exact ? "" : `; shown is the nearest view, ${spoken(reference)}`;
    return el("p", { class: "quiet", data: { testid: "reference" } }, `From ${spoken(asked)}${near}`);
  }

  /** Headings as buttons where the world has four, as a slider where it has all. */
  headingChoice(reference) {
    const { map } = this.state.values;
    const [x, y, degrees] = reference;
    const turn = (to) => this.acts.look([x, y, to], null);
    const button = (to, text, name) =>
      el(
        "button",
        {
          role: "radio",
          "aria-checked": String(degrees === to),
          data: { testid: `heading-${to ?? "any"}` },
          title: name,
          "aria-label": name,
          onclick: () => turn(to),
        },
        text,
      );
    // Where y grows down, degrees turn clockwise: 90 is down on the screen; else it is up.
    const [quarter, threeQuarters] = map?.y_down ? ["↓", "↑"] : ["↑", "↓"];
    const four = [
      button(null, "any", "Any heading"),
      button(0, "→", "Heading 0°"),
      button(90, quarter, "Heading 90°"),
      button(180, "←", "Heading 180°"),
      button(270, threeQuarters, "Heading 270°"),
    ];
    return el(
      "div",
      { class: "field-row" },
      el("span", {}, "Looking"),
      el("div", { class: "choices", role: "radiogroup", "aria-label": "Heading of the reference" }, ...four),
    );
  }

  shownAs() {
    const { headings } = this.state.values;
    const options = Object.entries(HEADINGS).map(([name, text]) => el(
      "option",
      { value: name, selected: name === headings },
      text,
    ));
    const choose = (event) => this.state.update({ headings: event.target.value });
    return el(
      "label",
      { class: "field-row" },
      el("span", {}, "Square shows"),
      el("select", { data: { testid: "headings" }, onchange: choose }, ...options),
    );
  }

  /** Sliders are made once for a graph, so that one that is held is not replaced. */
  makeThresholds() {
    const { graph, reference } = this.state.values;
    const own = Object.entries(graph?.thresholds ?? {}).filter(([name, value]) => value !== null && THRESHOLDS[name]);
    this.parts.thresholds.hidden = !own.length || !reference;
    const text = JSON.stringify(own);
    if (text === this.made) return;
    this.made = text;
    this.own = Object.fromEntries(own);
    const rows = own.map(([name, value]) => this.thresholdRow(name, value));
    const reset = () => this.state.update({ thresholds: { ...this.own } });
    fill(
      this.parts.thresholds,
      el(
        "h2",
        {},
        "Thresholds",
        el("button", { class: "plain", data: { testid: "thresholds-reset" }, onclick: reset }, "as trained"),
      ),
      ...rows,
    );
  }

  thresholdRow(name, value) {
    const move = (event) => this.state.update(
      { thresholds: { ...this.state.values.thresholds, [name]: Number(event.target.value) } },
    );
    const flip = (event) => {
      const { [name]: _, ...others } = this.state.values.thresholds;
      this.state.update(
        { thresholds: event.target.checked ? { ...others, [name]: Number(byId(`threshold-${name}`).value) } : others },
      );
    };
    const [low, high] = this.range(value);
    return el("div", { class: "threshold" },
      el("label", { title: THRESHOLDS[name].meaning },
        el("input", { type: "checkbox", checked: true, data: { testid: `threshold-${name}-on` }, onchange: flip }),
        el("i", { class: "swatch line", style: `background:${THRESHOLDS[name].colour}` }), name),
      el(
        "input",
        {
          type: "range",
          min: String(low),
          max: String(high),
          step: String((high - low) / 200),
          value: String(value),
          data: { testid: `threshold-${name}` },
          "aria-label": `Threshold ${name}`,
          oninput: move,
        },
      ),
      el("output", { data: { testid: `threshold-${name}-value` } }),
      el("p", { class: "quiet" }, THRESHOLDS[name].meaning));
  }

  range(value) {
    const range = this.state.values.fields?.range;
    if (range) return [Math.min(range[0], value), Math.max(range[1], value)];
    // A value is minus a number of steps; the other scores lie between 0 and 1 where it matters.
    const ends = this.state.values.graph?.score === "value" ? [2 * value, 0] : [0, 1];
    return [Math.min(ends[0], value), Math.max(ends[1], value)];
  }

  showThresholds() {
    const { thresholds, field, headings } = this.state.values;
    for (const name of Object.keys(this.own ?? {})) {
      const value = thresholds[name];
      byId(`threshold-${name}-on`).checked = value !== undefined;
      if (value !== undefined) byId(`threshold-${name}`).value = String(value);
      const above = field && value !== undefined ? aboveIt(field, headings, value) : null;
      byId(`threshold-${name}-value`).textContent = reading(value, above);
    }
  }
}

/** A pose in words. */
function spoken([x, y, degrees]) {
  const heading = degrees === null ? "any heading" : `heading ${Math.round(degrees)}°`;
  return `${number(Math.round(x))}, ${number(Math.round(y))}, ${heading}`;
}

/** How many places score as high as a threshold. */
function aboveIt(field, headings, threshold) {
  const shown = headings === "each" ? "best" : headings;
  return field.values.filter((one) => (placeValue(one, shown) ?? -Infinity) >= threshold).length;
}

/** Where a threshold stands, and how many places are above it, if a field is shown. */
function reading(threshold, above) {
  if (threshold === undefined) return "off";
  const places = above === null ? "" : ` · ${number(above)} ${above === 1 ? "place" : "places"} above`;
  return `${threshold.toFixed(2)}${places}`;
}

/** What the graph on the map amounts to, as pairs of name and text. */
function graphFacts(graph) {
  const { landmarks, edges, coverage, frontier } = graph;
  const inForce = edges.in_force.reduce((sum, one) => sum + one, 0);
  const sizes = new Map();
  for (const component of landmarks.component) sizes.set(component, (sizes.get(component) ?? 0) + 1);
  const largest = Math.max(0, ...sizes.values());
  const facts = [
    ["at step", number(graph.env_steps)],
    ["landmarks", number(landmarks.x.length)],
    ["edges", `${number(inForce)} in force, ${number(edges.source.length - inForce)} filtered out`],
    [
      "components",
      `${number(sizes.size)}${
        sizes.size > 1 ? `; the largest holds ${shareOf(largest, landmarks.x.length, "landmarks")}` : ""
      }`,
    ],
    ["frontier", el("span", { title: graph.frontier_rule ?? "" }, `${number(frontier.length)} landmarks`)],
  ];
  const { edge } = graph.thresholds;
  const unit = edge === 1 ? "transition" : "transitions";
  if (graph.score === "SFS" && edge) facts.push(["an edge takes", `${number(edge)} ${unit} or more`]);
  if (coverage?.visits) {
    const [visited, squares] = [coverage.visits.filter(Boolean).length, coverage.squares.length];
    facts.push(["coverage", shareOf(visited, squares, "squares")]);
  }
  return facts;
}

/** Where there is no map, landmarks are a list: the most visited first. */
function landmarkList({ landmarks, edges }) {
  const degree = landmarks.visits.map(() => 0);
  edges.source.forEach((source, edge) => {
    if (edges.in_force[edge]) degree[source] += 1;
  });
  const order = [...landmarks.visits.keys()].sort(
    (one, other) => landmarks.visits[other] - landmarks.visits[one],
  ).slice(0, LISTED);
  const lines = order.map((id) => el(
    "li",
    {},
    `landmark ${id}: ${number(landmarks.visits[id])} visits, ${number(degree[id])} edges from it`,
  ));
  return el("ul", { data: { testid: "landmark-list" } }, ...lines);
}

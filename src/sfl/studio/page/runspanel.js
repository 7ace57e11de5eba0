/** The left side: which run, which checkpoint, and what of it the map shows. */

import { runColour } from "./colours.js";
import { byId, el, fill, icon, number } from "./dom.js";
import { COLOURINGS } from "./look.js";
import { checkpointOf, currentRun } from "./state.js";

const LAYERS = {
  landmarks: "Landmarks",
  edges: "Edges",
  frontier: "Frontier",
  coverage: "Coverage",
  tasks: "Tasks",
};

const GROWING = 650; // milliseconds between two checkpoints while the graph grows

export class RunsPanel {
  /** @param {import("./state.js").State} state */
  constructor(state) {
    this.state = state;
    this.slider = byId("checkpoint");
    this.slider.addEventListener("input", () => this.choose(Number(this.slider.value)));
    byId("grow").addEventListener("click", () => this.grow());
    this.makeSwitches();
    state.watch(["runs", "run", "shown"], () => this.listRuns());
    state.watch(["runs", "run"], () => this.showFinding());
    state.watch(["runs", "run", "checkpoints", "graph"], () => this.showCheckpoint());
    state.watch(["colourBy", "filters", "layers", "graph", "map"], () => this.showSwitches());
    this.showGrowing();
  }

  listRuns() {
    const { runs, run, shown } = this.state.values;
    const text = JSON.stringify([runs, run, [...shown]]);
    if (text === this.listed) return;
    this.listed = text;
    const focused = document.activeElement?.getAttribute("data-testid");
    fill(byId("runs"), ...runs.map((one) => this.runLine(one, one.id === run, shown.has(one.id), runs)));
    if (focused?.startsWith("run-") || focused?.startsWith("shown-")) byId(focused).focus();
  }

  runLine(run, chosen, shown, runs) {
    const choose = () => this.state.update({ run: run.id });
    const flip = () => {
      const next = new Set(this.state.values.shown);
      if (!next.delete(run.id)) next.add(run.id);
      this.state.update({ shown: next });
    };
    const under = run.state === "training" && run.planned_steps;
    const steps = `${number(run.env_steps)} ${under ? `of ${number(run.planned_steps)}` : "steps"}`;
    return el(
      "li",
      { class: chosen ? "chosen" : "" },
      el("button", {
        data: { testid: `run-${run.id}` },
        "aria-pressed": String(chosen),
        onclick: choose,
        title: `${run.experiment}, agent ${run.agent}`,
      },
        el("i", { class: "swatch", style: `background:${runColour(runs, run.id)}` }),
        el("span", { class: "name" }, run.title),
        el(
          "span",
          { class: "quiet" },
          steps,
          run.state !== "finished" && el("span", { class: `state ${run.state}` }, ` ${run.state}`),
        )),
      el("label", { class: "tick", title: "In curves and configuration" },
        el(
          "input",
          {
            type: "checkbox",
            checked: shown,
            data: { testid: `shown-${run.id}` },
            onchange: flip,
            "aria-label": `${run.title} in curves and configuration`,
          },
        )),
    );
  }

  /** Why the run most likely fails, where its files say so. */
  showFinding() {
    const line = currentRun(this.state)?.finding ?? null;
    const box = byId("finding");
    box.hidden = line === null;
    if (box.textContent !== (line ?? "")) box.textContent = line ?? "";
  }

  choose(place) {
    const run = currentRun(this.state);
    const found = run?.checkpoints[place];
    if (found) this.state.update({ checkpoints: { ...this.state.values.checkpoints, [run.id]: found.name } });
  }

  place() {
    const run = currentRun(this.state);
    return run ? run.checkpoints.findIndex((one) => one.name === checkpointOf(this.state, run.id)) : -1;
  }

  /** @param {number} by checkpoints, onwards or back */
  shift(by) {
    const run = currentRun(this.state);
    if (run) this.choose(Math.max(0, Math.min(run.checkpoints.length - 1, this.place() + by)));
  }

  showCheckpoint() {
    const run = currentRun(this.state);
    const count = run?.checkpoints.length ?? 0;
    const place = this.place();
    byId("checkpoint-section").hidden = !count;
    this.slider.max = String(Math.max(0, count - 1));
    this.slider.value = String(Math.max(0, place));
    this.slider.disabled = count < 2;
    byId("grow").disabled = count < 2;
    if (!count) return;
    const { name, env_steps: steps } = run.checkpoints[place];
    this.slider.setAttribute("aria-valuetext", `${number(steps)} steps`);
    const { graph } = this.state.values;
    const shown = graph && graph.checkpoint === name ? `, ${number(graph.landmarks.x.length)} landmarks` : "";
    fill(byId("checkpoint-text"), el("strong", {}, number(steps)), ` steps${shown}`);
  }

  /** Go through all checkpoints, from the first where the last is shown. */
  grow() {
    const run = currentRun(this.state);
    if (this.growing || !run) {
      clearInterval(this.growing);
      this.growing = null;
    } else {
      if (this.place() === run.checkpoints.length - 1) this.choose(0);
      this.growing = setInterval(() => {
        this.shift(1);
        if (this.place() >= run.checkpoints.length - 1) this.grow();
      }, GROWING);
    }
    this.showGrowing();
  }

  showGrowing() {
    fill(byId("grow"), icon(this.growing ? "pause" : "play"));
  }

  makeSwitches() {
    const { state } = this;
    const colourings = Object.entries(COLOURINGS).map(([name, text]) =>
      el(
        "button",
        { role: "radio", data: { testid: `colour-${name}` }, onclick: () => state.update({ colourBy: name }) },
        text,
      ));
    fill(byId("colour-by"), ...colourings);
    const flip = (name) => state.update({ layers: { ...state.values.layers, [name]: !state.values.layers[name] } });
    const layers = Object.entries(LAYERS).map(([name, text]) => toggle(`layer-${name}`, text, () => flip(name)));
    const filters = toggle("filters", "Filters of edges", () => state.update({ filters: !state.values.filters }));
    filters.title = "On: edges in force. Off: also those that the agent's filters took out.";
    fill(byId("layers"), ...layers, filters);
  }

  showSwitches() {
    const { colourBy, filters, layers, graph, map } = this.state.values;
    byId("graph-section").hidden = !graph && !map;
    for (const name of Object.keys(COLOURINGS)) {
      byId(`colour-${name}`).setAttribute("aria-checked", String(name === colourBy));
      byId(`colour-${name}`).disabled = !graph?.landmarks.x.length;
    }
    for (const name of Object.keys(LAYERS)) byId(`layer-${name}`).checked = layers[name];
    byId("layer-coverage").disabled = !graph?.coverage;
    byId("layer-tasks").disabled = !Object.keys(map?.tasks ?? {}).length;
    byId("filters").checked = filters;
    byId("filters").disabled = !graph?.edges.source.length;
  }
}

/** A labelled switch. */
export function toggle(testid, text, flip) {
  return el(
    "label",
    { class: "switch" },
    el("input", { type: "checkbox", role: "switch", data: { testid }, onchange: flip }),
    el("span", {}, text),
  );
}

/** The tab of curves: success, leading indicators and losses of the chosen runs. */

import { chart } from "./chart.js";
import { runColour } from "./colours.js";
import { byId, el, fill, number, percent } from "./dom.js";
import { grouped } from "./seeds.js";
import { checkpointOf, complain, currentRun } from "./state.js";

const GROUPS = { success: "Success", indicator: "Indicators", training: "Training" };
const OFTEN = 15000; // milliseconds between two looks at the curves of a run in training

export class CurvesPanel {
  /** @param {import("./state.js").State} state @param {any} source */
  constructor(state, source) {
    [this.state, this.source] = [state, source];
    this.box = byId("panel-curves");
    this.group = "success";
    this.document = null;
    state.watch(["shown", "tab"], () => this.load());
    state.watch(["epoch"], () => this.load(true));
    state.watch(["run", "checkpoints", "runs", "graph"], () => this.mark());
    setInterval(() => this.training() && !document.hidden && this.load(true), OFTEN);
  }

  training() {
    const { runs, shown } = this.state.values;
    return runs.some((run) => shown.has(run.id) && run.state === "training");
  }

  ids() {
    const { runs, shown } = this.state.values;
    return runs.filter((run) => shown.has(run.id)).map((run) => run.id);
  }

  async load(anew = false) {
    const ids = this.ids();
    if (this.state.values.tab !== "curves" || (!anew && ids.join() === this.loaded)) return;
    this.loaded = ids.join();
    try {
      this.document = ids.length ? await this.source.curves(ids) : { metrics: [], levels: [] };
      this.show();
    } catch (error) {
      this.loaded = null;
      complain(this.state, error);
    }
  }

  /** The checkpoint moved: so does its line in every chart. */
  mark() {
    const run = currentRun(this.state);
    const found = run?.checkpoints.find((one) => one.name === checkpointOf(this.state, run.id));
    const at = found?.env_steps ?? null;
    if (at === this.at) return;
    this.at = at;
    if (this.document && this.state.values.tab === "curves") this.show();
  }

  show() {
    const kept = this.document.metrics.filter((metric) => metric.group === this.group);
    const choices = Object.entries(GROUPS).map(([name, text]) =>
      el(
        "button",
        {
          role: "radio",
          "aria-checked": String(name === this.group),
          data: { testid: `curves-${name}` },
          onclick: () => this.choose(name),
        },
        text,
      ));
    const charts = kept.map((metric) => this.figure(metric)).filter(Boolean);
    fill(this.box,
      el("div", { class: "choices", role: "radiogroup", "aria-label": "Which curves" }, ...choices),
      this.key(),
      charts.length ? el("div", { class: "charts" }, ...charts) : el(
        "p",
        { class: "lead" },
        this.ids().length ? "Nothing of this kind was measured yet." : "Tick runs on the left to see their curves.",
      ));
  }

  choose(name) {
    this.group = name;
    this.show();
    byId(`curves-${name}`).focus();
  }

  /** Which colour is which experiment, and what the band means. */
  key() {
    const { runs, shown } = this.state.values;
    const experiments = new Map();
    for (const run of runs) if (shown.has(run.id)) experiments.set(
      run.experiment,
      [...(experiments.get(run.experiment) ?? []), run],
    );
    const items = [...experiments].map(([name, members]) =>
      el(
        "li",
        {},
        el("i", { class: "swatch", style: `background:${runColour(runs, members[0].id)}` }),
        name,
        el(
          "span",
          { class: "quiet" },
          members.length > 1 ? ` mean of ${members.length} seeds` : ` seed ${members[0].seed}`,
        ),
      ));
    const banded = [...experiments.values()].some((members) => members.length > 1);
    return el(
      "div",
      { class: "key" },
      el("ul", {}, ...items),
      el(
        "p",
        { class: "quiet" },
        "Dots were measured; the line between them only guides the eye.",
        banded && " Bars: from the lowest seed to the highest.",
      ),
    );
  }

  figure(metric) {
    const { runs, shown } = this.state.values;
    const groups = grouped(metric, runs.filter((run) => shown.has(run.id)));
    if (!groups.length) return null;
    const written = metric.unit === "share" ? percent : number;
    const resting = () => [el(
      "span",
      { class: "quiet" },
      `last ${groups.map((group) => written(group.mean.at(-1))).join(" · ")}`,
    )];
    const reading = el("span", { class: "reading" }, ...resting());
    const chance = metric.random ?? null; // of the random policy on the same tasks
    const beside = chance !== null && el("span", { class: "quiet" }, ` · random policy ${written(chance)}`);
    const tell = (lines, step) => {
      const parts = lines?.map(({ colour, text }) => el("b", { style: `--kind:${colour}` }, text));
      fill(
        reading,
        ...(parts ? [el("span", { class: "quiet" }, `at ${number(Math.round(step))}`), ...parts] : resting()),
      );
    };
    return el("figure", {
      data: { testid: `chart-${metric.name}` },
      title: [metric.meaning, metric.bad].filter(Boolean).join(" ") || metric.name,
    },
      el(
        "figcaption",
        {},
        el("span", {}, metric.title, metric.unit && el("span", { class: "quiet" }, ` · ${metric.unit}`), beside),
        reading,
      ),
      chart(groups, runs, metric.unit, this.at ?? null, tell));
  }
}

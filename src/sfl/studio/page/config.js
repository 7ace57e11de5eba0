/** The tab of settings: what differs between the chosen runs first, everything on request. */

import { runColour } from "./colours.js";
import { byId, el, fill } from "./dom.js";
import { complain } from "./state.js";

export class ConfigPanel {
  /** @param {import("./state.js").State} state @param {any} source */
  constructor(state, source) {
    [this.state, this.source] = [state, source];
    this.box = byId("panel-config");
    this.document = null;
    this.onlyDifferences = null;
    this.search = el(
      "input",
      {
        type: "search",
        placeholder: "find a setting",
        data: { testid: "config-search" },
        "aria-label": "Find a setting",
        oninput: () => this.showTable(),
      },
    );
    this.table = el("div", { class: "table" });
    state.watch(["shown", "tab"], () => this.load());
    state.watch(["epoch"], () => this.load(true));
  }

  async load(anew = false) {
    const { runs, shown, tab } = this.state.values;
    const ids = runs.filter((run) => shown.has(run.id)).map((run) => run.id);
    if (tab !== "config" || (!anew && ids.join() === this.loaded)) return;
    this.loaded = ids.join();
    try {
      this.document = ids.length ? await this.source.config(ids) : { settings: {}, differs: [] };
      this.show();
    } catch (error) {
      this.loaded = null;
      complain(this.state, error);
    }
  }

  show() {
    const several = Object.keys(this.document.settings).length > 1;
    this.onlyDifferences ??= several;
    const flip = (event) => {
      this.onlyDifferences = event.target.checked;
      this.showTable();
    };
    fill(this.box,
      el("div", { class: "field-row" }, this.search,
        several && el(
          "label",
          { class: "switch" },
          el(
            "input",
            {
              type: "checkbox",
              role: "switch",
              checked: this.onlyDifferences,
              data: { testid: "config-differs" },
              onchange: flip,
            },
          ),
          el("span", {}, "only what differs"),
        )),
      this.table);
    this.showTable();
  }

  showTable() {
    const { settings, differs } = this.document;
    const ids = Object.keys(settings);
    const { runs } = this.state.values;
    const different = new Set(differs);
    const names = [...new Set(Object.values(settings).flatMap((one) => Object.keys(one)))];
    const wanted = this.search.value.trim().toLowerCase();
    const only = this.onlyDifferences && ids.length > 1;
    const kept = names.filter((name) => (!only || different.has(name)) && name.toLowerCase().includes(wanted));
    if (!kept.length) {
      fill(this.table, el("p", { class: "lead" }, nothing(ids.length > 0, wanted)));
      return;
    }
    const rows = kept.map((name) => el(
      "div",
      { class: different.has(name) ? "differs" : "" },
      el("dt", {}, ...broken(name)),
      el("dd", {}, ...this.valuesOf(name, ids, different.has(name))),
    ));
    fill(this.table, el("dl", { class: "settings", data: { testid: "config-table" } }, ...rows));
  }

  /** Each value once, behind the colours of the runs that have it. */
  valuesOf(name, ids, differs) {
    const { settings } = this.document;
    const { runs } = this.state.values;
    const holders = new Map();
    for (const id of ids) {
      const text = written(settings[id][name]);
      holders.set(text, [...(holders.get(text) ?? []), id]);
    }
    const title = (id) => runs.find((run) => run.id === id)?.title ?? id;
    const swatch = (id) => el("i", { class: "swatch", style: `background:${runColour(runs, id)}`, title: title(id) });
    const marks = (having) => (differs ? having.map(swatch) : []);
    return [...holders].map(([text, having]) => el("span", { class: "value" }, ...marks(having), text));
  }
}

/** Why no setting is shown. */
function nothing(chosen, wanted) {
  if (!chosen) return "Tick runs on the left to see their settings.";
  return wanted ? "No setting has this name." : "These runs have the same settings.";
}

/** A long dotted name may break after each dot. */
function broken(name) {
  return name.split(".").flatMap((part, place, all) => (place < all.length - 1 ? [`${part}.`, el("wbr")] : [part]));
}

function written(value) {
  if (value === undefined) return "–";
  if (typeof value === "number") return String(Number(value.toPrecision(6)));
  return typeof value === "string" ? value : JSON.stringify(value);
}

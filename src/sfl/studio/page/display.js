/** How the page itself looks: theme, projector, tabs, widths, and lines that tell the user something. */

import { byId, el, fill } from "./dom.js";
import { currentRun } from "./state.js";

const THEMES = ["auto", "light", "dark"];
const TABS = { place: "Place", live: "Live", curves: "Curves", config: "Settings" };
const READ = 7000; // milliseconds a message stays

export class Display {
  /** @param {import("./state.js").State} state */
  constructor(state) {
    this.state = state;
    byId("theme").addEventListener("click", () => this.nextTheme());
    byId("projector").addEventListener("click", () => state.update({ projector: !state.values.projector }));
    this.makeTabs();
    this.makeSplitter();
    state.watch(["theme"], () => this.showTheme());
    state.watch(["projector"], () => this.showProjector());
    state.watch(["tab"], () => this.showTab());
    state.watch(["message"], () => this.showMessage());
    state.watch(["run", "runs", "map", "graph"], () => this.showHeadline());
    byId("message").addEventListener("click", () => state.update({ message: null }));
  }

  nextTheme() {
    const place = THEMES.indexOf(this.state.values.theme);
    // The attribute first: whoever draws on the change reads colours from the style sheet.
    const theme = THEMES[(place + 1) % THEMES.length];
    setTheme(theme);
    this.state.update({ theme });
  }

  showTheme() {
    const { theme } = this.state.values;
    setTheme(theme);
    byId("theme").textContent = { auto: "Auto", light: "Light", dark: "Dark" }[theme];
  }

  showProjector() {
    const { projector } = this.state.values;
    document.documentElement.toggleAttribute("data-projector", projector);
    byId("projector").setAttribute("aria-pressed", String(projector));
  }

  makeTabs() {
    const tabs = Object.entries(TABS).map(([name, text], place) =>
      el(
        "button",
        {
          role: "tab",
          data: { testid: `tab-${name}` },
          title: `${text} (${place + 1})`,
          onclick: () => this.state.update({ tab: name }),
        },
        text,
      ));
    fill(byId("tabs"), ...tabs);
  }

  showTab() {
    for (const name of Object.keys(TABS)) {
      const shown = name === this.state.values.tab;
      byId(`tab-${name}`).setAttribute("aria-selected", String(shown));
      byId(`panel-${name}`).hidden = !shown;
    }
  }

  /** @param {number} place 0 for the first tab */
  tab(place) {
    this.state.update({ tab: Object.keys(TABS)[place] });
  }

  makeSplitter() {
    const splitter = byId("splitter");
    const right = splitter.nextElementSibling;
    const set = (width) => document.documentElement.style.setProperty(
      "--right",
      `${Math.max(300, Math.min(innerWidth - 560, width))}px`,
    );
    splitter.addEventListener("pointerdown", (event) => splitter.setPointerCapture(event.pointerId));
    splitter.addEventListener(
      "pointermove",
      (event) => splitter.hasPointerCapture(event.pointerId) && set(innerWidth - event.clientX),
    );
    splitter.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: 24, ArrowRight: -24 }[event.key];
      if (!by) return;
      set(right.offsetWidth + by);
      event.preventDefault();
      event.stopPropagation();
    });
    splitter.addEventListener("dblclick", () => document.documentElement.style.removeProperty("--right"));
  }

  showMessage() {
    const { message } = this.state.values;
    const box = byId("message");
    box.hidden = !message;
    clearTimeout(this.reading);
    if (!message) return;
    box.textContent = message.text;
    box.dataset.kind = message.kind;
    this.reading = setTimeout(() => this.state.update({ message: null }), READ);
  }

  showHeadline() {
    const run = currentRun(this.state);
    const { map, graph } = this.state.values;
    byId("headline").textContent = run ? [...new Set([map?.title, run.title])].filter(Boolean).join(" · ") : "";
    const empty = byId("map-empty");
    empty.hidden = Boolean(map && map.kind !== "other" && (graph || !run?.has_graph));
    empty.textContent = this.whyEmpty(run);
  }

  /** What stands where the map should be. */
  whyEmpty(run) {
    const { map, runs } = this.state.values;
    if (!runs.length) return "No runs yet.";
    if (!run || !map) return "Loading …";
    if (map.kind === "other") return "There is no map from above here: see curves, settings, and the agent live.";
    return run.checkpoints.length ? "Loading the graph …" : "No checkpoint yet: the graph comes with the first.";
  }
}

function setTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

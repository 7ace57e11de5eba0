/** How the page itself looks: theme, projector, tabs, widths, and lines that tell the user something. */

import { byId, el, fill } from "./dom.js";
import { currentRun } from "./state.js";

const THEMES = ["auto", "light", "dark"];
const TABS = { runs: "Runs", place: "Place", live: "Live", curves: "Curves", config: "Settings" };
const NUMBERED = ["place", "live", "curves", "config"]; // tabs that are always there, as keys call them

/** A phone, a small window, or a page that is enlarged: the left side becomes a tab of the right. */
const COMPACT = "(max-width: 979px), (max-height: 559px)";
const READ = 7000; // milliseconds a message stays

export class Display {
  /** @param {import("./state.js").State} state */
  constructor(state) {
    this.state = state;
    byId("theme").addEventListener("click", () => this.nextTheme());
    byId("projector").addEventListener("click", () => state.update({ projector: !state.values.projector }));
    this.makeTabs();
    this.makeSplitter();
    this.compact = matchMedia(COMPACT);
    this.compact.addEventListener("change", () => this.fold());
    this.fold();
    state.watch(["theme"], () => this.showTheme());
    state.watch(["projector"], () => this.showProjector());
    state.watch(["tab"], () => this.showTab());
    state.watch(["message"], () => this.showMessage());
    state.watch(["lost"], () => this.showLost());
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
    const tabs = Object.entries(TABS).map(([name, text]) =>
      el(
        "button",
        {
          role: "tab",
          data: { testid: `tab-${name}` },
          title: NUMBERED.includes(name) ? `${text} (${NUMBERED.indexOf(name) + 1})` : text,
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
    this.state.update({ tab: NUMBERED[place] });
  }

  /** Three columns where there is room; else what stood left is a tab, beside or below the map. */
  fold() {
    const { matches: compact } = this.compact;
    document.documentElement.toggleAttribute("data-compact", compact);
    const places = [byId("left"), byId("panel-runs")];
    const [from, to] = compact ? places : places.reverse();
    to.append(...from.children);
    byId("tab-runs").hidden = !compact;
    if (!compact && this.state.values.tab === "runs") this.state.update({ tab: "place" });
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

  /** As long as the server cannot be asked; what was loaded can still be looked at. */
  showLost() {
    const { lost } = this.state.values;
    byId("lost").hidden = lost === null;
    byId("lost").textContent = lost === null ? "" : `${lost} What was loaded is still shown; the page keeps asking.`;
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

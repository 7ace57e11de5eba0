/** Everything by keyboard, and the list that says how. */

import { byId, el, fill, icon } from "./dom.js";
import { bearing, snapped } from "./pointer.js";
import { COLOURINGS } from "./look.js";
import { NO_TASK } from "./state.js";

const LIST = [
  [
    "Map",
    [
      ["arrows", "move the cross-hairs (map in focus; Shift: farther)"],
      ["Enter", "field from the cross-hairs"],
      ["A, then B", "start and goal at the cross-hairs: the agent goes"],
      ["Q E", "turn the reference; W: any heading"],
      ["+ − 0", "closer, farther, all of it"],
      ["V D", "mouse looks, mouse sends"],
      ["M", "focus the map"],
    ],
  ],
  [
    "Mouse",
    [
      ["click", "field from a place or landmark"],
      ["drag", "pan; the handle of the reference turns it"],
      ["Shift-drag", "send the agent from here to there"],
      ["wheel", "zoom"],
      ["drop a picture", "it becomes the goal"],
    ],
  ],
  [
    "Graph",
    [
      ["← →", "checkpoint before, next"],
      ["G", "watch the graph grow"],
      ["C", "colour by the next quantity"],
      ["F", "filters of edges"],
      ["X", "coverage"],
      ["K", "tasks"],
    ],
  ],
  [
    "Episode",
    [
      ["Space", "play, pause"],
      [". ,", "one step on, one back"],
      ["R", "from the beginning"],
      ["< >", "slower, faster"],
      ["Esc", "end it; clear the field"],
    ],
  ],
  [
    "Page",
    [
      ["1 2 3 4", "place, live, curves, settings"],
      ["[ ]", "run before, next"],
      ["T", "light, dark, auto"],
      ["P", "projector"],
      ["?", "this list"],
    ],
  ],
];

export class Keys {
  /**
   * @param {import("./state.js").State} state
   * @param {{panel: import("./map.js").MapPanel, runs: any, display: any, live: any, livePanel: any, acts: any}} parts
   */
  constructor(state, parts) {
    this.state = state;
    Object.assign(this, parts);
    this.table = this.makeTable();
    document.addEventListener("keydown", (event) => this.press(event));
    byId("help").addEventListener("click", () => this.help());
    this.makeHelp();
  }

  makeHelp() {
    const groups = LIST.map(([title, keys]) =>
      el(
        "section",
        {},
        el("h3", {}, title),
        el("dl", {}, ...keys.flatMap(([key, text]) => [el("dt", {}, el("kbd", {}, key)), el("dd", {}, text)])),
      ));
    const close = el(
      "button",
      { class: "plain", "aria-label": "Close", data: { testid: "keys-close" }, onclick: () => byId("keys").close() },
      icon("close"),
    );
    fill(byId("keys"), el("h2", {}, "Keys and mouse", close), el("div", { class: "columns" }, ...groups));
    byId("keys").addEventListener("click", (event) => event.target === byId("keys") && byId("keys").close());
  }

  help() {
    const dialog = byId("keys");
    if (dialog.open) dialog.close();
    else dialog.showModal();
  }

  /** @returns {Record<string, (event: KeyboardEvent) => void>} */
  makeTable() {
    const { state, panel, runs, display, live, livePanel, acts } = this;
    const layer = (name) => state.update({ layers: { ...state.values.layers, [name]: !state.values.layers[name] } });
    const zoom = (factor) => {
      if (factor) panel.view.zoom(factor);
      else panel.view.fit();
      panel.moved();
    };
    return {
      ArrowLeft: () => runs.shift(-1), ArrowRight: () => runs.shift(1), g: () => runs.grow(),
      "+": () => zoom(1.35), "=": () => zoom(1.35), "-": () => zoom(1 / 1.35), 0: () => zoom(null),
      v: () => state.update({ tool: "look" }), d: () => state.update({ tool: "send" }), m: () => panel.box.focus(),
      c: () => this.nextColour(), f: () => state.update(
        { filters: !state.values.filters },
      ), x: () => layer("coverage"), k: () => layer("tasks"),
      " ": () => live.toggle(), ".": () => live.step(1), ",": () => live.step(-1), r: () => live.again(),
      "<": () => livePanel.faster(-1), ">": () => livePanel.faster(1),
      q: () => this.turn(-1), e: () => this.turn(1), w: () => this.turn(0),
      1: () => display.tab(0), 2: () => display.tab(1), 3: () => display.tab(2), 4: () => display.tab(3),
      "[": () => this.nextRun(-1), "]": () => this.nextRun(1), t: () => display.nextTheme(), p: () => state.update(
        { projector: !state.values.projector },
      ),
      "?": () => this.help(),
      Escape: () => this.escape(),
    };
  }

  press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || byId("keys").open) return;
    const { target } = event;
    const typing = target.matches?.("input:not([type=checkbox]):not([type=range]), select, textarea");
    const sliding = target.matches?.("input[type=range]") && event.key.startsWith("Arrow");
    const pressing = target.matches?.("button, input[type=checkbox]") && [" ", "Enter"].includes(event.key);
    if (typing || sliding || pressing) return;
    const onMap = target === this.panel.box && this.pressOnMap(event);
    const act = this.table[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (onMap || act) event.preventDefault();
    if (!onMap && act) act(event);
  }

  /** Keys that mean something only while the map has the focus. @returns {boolean} whether it was one */
  pressOnMap(event) {
    const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    const { map, cursor, draft } = this.state.values;
    if (!this.panel.shownMap) return false;
    if (way) {
      this.move(way, event.shiftKey ? 5 : 1);
      return true;
    }
    if (!cursor) return false;
    if (event.key === "Enter") this.acts.look([...cursor, null], null);
    else if (event.key === "a") this.acts.from([...cursor, 0]);
    else if (event.key === "b" && draft) {
      const degrees = bearing(map, draft.start, cursor);
      this.acts.go({
        ...NO_TASK,
        start: [draft.start[0], draft.start[1], degrees],
        goal: [...cursor, degrees],
      });
    } else return false;
    return true;
  }

  move([right, down], times) {
    const { map, cursor } = this.state.values;
    const { view } = this.panel;
    const stride = times * (map.kind === "grid" ? 1 : Math.max(1, Math.round(12 / view.scale)));
    const [x, y] = cursor ?? snapped(map, [view.x, view.y]);
    const [x0, y0, x1, y1] = map.bounds;
    const held = (value, low, high) => Math.max(Math.ceil(low), Math.min(Math.floor(high), value));
    const next = cursor ? [held(x + right * stride, x0, x1), held(y + down * stride * view.flip, y0, y1)] : [x, y];
    view.reveal(...next);
    this.panel.moved();
    this.state.update({ cursor: next });
  }

  /** Turn the reference by a quarter (grids) or an eighth; 0: any heading. */
  turn(by) {
    const { reference, map } = this.state.values;
    if (!reference) return;
    const quarter = map.kind === "grid" ? 90 : 45;
    const degrees = by === 0 ? null : ((reference[2] ?? -by * quarter) + by * quarter + 360) % 360;
    this.acts.look([reference[0], reference[1], degrees], null);
  }

  /** End what was begun last: a task being drawn, an episode, a field. */
  escape() {
    const { draft, session } = this.state.values;
    if (draft) this.state.update({ draft: null });
    else if (session) this.live.stop();
    else this.acts.look(null, null);
  }

  nextColour() {
    const names = Object.keys(COLOURINGS);
    this.state.update({ colourBy: names[(names.indexOf(this.state.values.colourBy) + 1) % names.length] });
  }

  nextRun(by) {
    const { runs, run } = this.state.values;
    const place = runs.findIndex((one) => one.id === run) + by;
    if (runs[place]) this.state.update({ run: runs[place].id });
  }
}

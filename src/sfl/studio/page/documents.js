/** Keeps run list, map and graph up to date with what is chosen, and with training that goes on. */

import { Refused } from "./source.js";
import { checkpointOf, complain, currentRun, NO_TASK, say } from "./state.js";

const OFTEN = 5000; // milliseconds between two looks at the runs
const SOON = 2000; // while the server does not answer
const SELDOM = 15000; // while the page is hidden
const SHOWN = 12; // runs that are in the curves unless one says otherwise
const KEPT = 24; // graphs in memory

export class Documents {
  /** @param {import("./state.js").State} state @param {any} source */
  constructor(state, source) {
    [this.state, this.source] = [state, source];
    /** @type {Map<string, Promise<any>>} */
    this.maps = new Map();
    /** @type {Map<string, Promise<any>>} */
    this.graphs = new Map();
    state.watch(["run"], () => this.loadMap());
    state.watch(["run", "checkpoints", "runs"], () => this.loadGraph());
    state.watch(["lost"], () => this.poll());
    state.watch(["epoch"], () => {
      this.loadMap();
      this.loadGraph();
    });
  }

  /** The first look; where it fails it is tried again like any other. */
  async begin() {
    if (this.source.live) document.addEventListener("visibilitychange", () => document.hidden || this.look());
    await this.look();
  }

  poll() {
    clearTimeout(this.timer);
    if (!this.source.live) return;
    this.timer = setTimeout(() => this.look(), this.state.values.lost ? SOON : document.hidden ? SELDOM : OFTEN);
  }

  async look() {
    try {
      this.heard(await this.source.runs());
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      this.state.update({ lost: error.message });
    } finally {
      this.poll();
    }
  }

  /** The list of runs: the first one, one that has grown, or that of a server that was started anew. */
  heard({ runs, demo, version, server }) {
    const { state } = this;
    const { about } = this;
    this.about = { demo, version, server };
    if (!about) this.open(runs);
    else if (about.version !== version) location.reload(); // this page is not that server's
    else if (about.server !== server) this.reopen(runs);
    else this.update(runs);
    if (state.values.lost !== null) state.update({ lost: null, epoch: state.values.epoch + 1 });
  }

  open(runs) {
    const first = runs.find((run) => run.has_graph && run.world !== "other") ?? runs[0];
    const shown = new Set(runs.slice(0, SHOWN).map((run) => run.id));
    this.state.update({ runs, run: first?.id ?? null, shown });
  }

  /** Runs that were begun meanwhile come into the curves, too, as long as these are few. */
  update(runs) {
    const { runs: before, shown } = this.state.values;
    if (JSON.stringify(runs) === JSON.stringify(before)) return;
    const known = new Set(before.map((run) => run.id));
    const fresh = runs.filter((run) => !known.has(run.id)).map((run) => run.id);
    const more = fresh.slice(0, Math.max(0, SHOWN - shown.size));
    this.state.update({ runs, ...(more.length ? { shown: new Set([...shown, ...more]) } : {}) });
  }

  /** Another server than the one before: what was kept of its runs is forgotten, what is shown is asked for anew. */
  reopen(runs) {
    const { state } = this;
    this.maps.clear();
    this.graphs.clear();
    this.shown = null;
    const names = (list) => list.map((run) => `${run.id} ${run.title} ${run.world_key}`).join();
    const same = names(runs).startsWith(names(state.values.runs)); // the same numbers mean the same runs
    if (!same) {
      this.leaveWorld();
      state.update({ run: null, checkpoints: {} });
      this.open(runs);
    } else this.update(runs);
    state.update({ epoch: state.values.epoch + 1 });
  }

  async loadMap() {
    const { run } = this.state.values;
    if (!run) return;
    const known = this.state.values.runs.find((one) => one.id === run);
    if (known.world_key !== this.world) this.leaveWorld();
    this.world = known.world_key;
    if (!this.maps.has(run)) this.maps.set(run, this.source.map(run));
    try {
      const map = await this.maps.get(run);
      if (this.state.values.run !== run) return;
      // In a grid the four headings of a cell look alike to an agent; in a maze they show different walls.
      const headings = this.state.values.map?.world === known.world_key ? {} : {
        headings: map.kind === "maze" ? "best" : "mean",
      };
      this.state.update({ map: { ...map, world: known.world_key }, ...headings });
    } catch (error) {
      this.maps.delete(run);
      complain(this.state, error);
    }
  }

  /** What was chosen in another world means nothing in this one. */
  leaveWorld() {
    if (this.state.values.session) say(this.state, "The episode was ended: its world is left.", "note");
    this.state.update({
      map: null,
      graph: null,
      reference: null,
      picked: null,
      hover: null,
      cursor: null,
      session: null,
      players: [],
      draft: null,
      task: NO_TASK,
    });
  }

  /** The key of a graph; the last checkpoint is another one whenever training wrote it anew. */
  key(run, checkpoint) {
    const found = run.checkpoints.find((one) => one.name === checkpoint);
    return `${run.id} ${checkpoint} ${found?.env_steps}`;
  }

  fetch(run, checkpoint) {
    const key = this.key(run, checkpoint);
    if (!this.graphs.has(key)) {
      const asked = this.source.graph(run.id, checkpoint);
      asked.catch(() => this.graphs.delete(key));
      this.graphs.set(key, asked);
      if (this.graphs.size > KEPT) this.graphs.delete(this.graphs.keys().next().value);
    }
    return this.graphs.get(key);
  }

  async loadGraph() {
    const run = currentRun(this.state);
    const checkpoint = run && checkpointOf(this.state, run.id);
    const key = checkpoint && run.has_graph ? this.key(run, checkpoint) : null;
    if (key === this.shown) return;
    this.shown = key;
    if (!key) {
      this.state.update({ graph: null });
      return;
    }
    try {
      const graph = await this.fetch(run, checkpoint);
      if (this.shown !== key) return;
      const { picked } = this.state.values;
      const gone = picked !== null && picked >= graph.landmarks.x.length;
      this.state.update({ graph, hover: null, picked: gone ? null : picked });
      this.fetchNext(run, checkpoint);
    } catch (error) {
      if (this.shown !== key) return;
      this.shown = null;
      complain(this.state, error);
    }
  }

  /** The neighbours on the slider are likely to be asked for next. */
  fetchNext(run, checkpoint) {
    const place = run.checkpoints.findIndex((one) => one.name === checkpoint);
    for (const next of [
      run.checkpoints[place - 1],
      run.checkpoints[place + 1],
    ]) if (next) this.fetch(run, next.name).catch(() => {});
  }
}

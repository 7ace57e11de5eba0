/** Keeps run list, map and graph up to date with what is chosen, and with training that goes on. */

import { checkpointOf, currentRun, say } from "./state.js";

const OFTEN = 5000; // milliseconds between two looks at the runs
const SELDOM = 15000; // while the page is hidden
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
  }

  async begin() {
    const { runs, demo, version } = await this.source.runs();
    this.about = { demo, version };
    const first = runs.find((run) => run.has_graph && run.world !== "other") ?? runs[0];
    this.state.update({ runs, run: first?.id ?? null, shown: new Set(runs.slice(0, 12).map((run) => run.id)) });
    if (this.source.live) this.poll();
  }

  poll() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.look(), document.hidden ? SELDOM : OFTEN);
  }

  async look() {
    try {
      const { runs } = await this.source.runs();
      if (JSON.stringify(runs) !== JSON.stringify(this.state.values.runs)) this.state.update({ runs });
      this.silent = false;
    } catch (error) {
      if (!this.silent) say(this.state, error.message);
      this.silent = true;
    }
    this.poll();
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
      say(this.state, error.message);
    }
  }

  /** What was chosen in another world means nothing in this one. */
  leaveWorld() {
    const task = { start: null, goal: null, picture: null, level: null, pair: null };
    this.state.update({
      map: null,
      graph: null,
      reference: null,
      picked: null,
      hover: null,
      cursor: null,
      session: null,
      players: [],
      task,
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
      say(this.state, error.message);
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

/** Episodes: begun on the server or recorded in the file, kept step by step, played at the page's own playhead. */

import { checkpointOf, complain, NO_TASK, say } from "./state.js";

export const SERVERLESS = "An exported page has no agent to send; open the run with `sfl studio` for that.";

/** One task, and everything its players did so far. */
export class Session {
  /** @param {{run: string, checkpoint: string, title: string}[]} players @param {any} task */
  constructor(players, task) {
    this.players = players.map((player) => ({ ...player, begin: null, steps: [], end: null }));
    [this.start, this.goal] = [task.start, task.goal];
    this.picture = task.picture ?? null;
    this.id = null;
    this.failed = null;
  }

  /** The last step that anyone took. */
  get edge() {
    return Math.max(0, ...this.players.map((player) => player.steps.length - 1));
  }

  get over() {
    return this.failed !== null || this.players.every((player) => player.end !== null);
  }

  /** @param {import("./source.js").LiveEvent} event */
  take(event) {
    if (event.type === "error") {
      this.failed = event.text;
      return;
    }
    const player = this.players[event.player];
    if (!player) return;
    if (event.type === "begin") {
      player.begin = event;
      this.start = event.start ?? this.start;
      this.goal = event.goal ?? this.goal;
    } else if (event.type === "step") {
      // A reconnected stream may say a step twice.
      const seen = player.steps.at(-1);
      if (!seen || event.step > seen.step) player.steps.push(event);
    } else if (event.type === "end") player.end = event;
  }
}

export class Live {
  /** @param {import("./state.js").State} state @param {any} source */
  constructor(state, source) {
    [this.state, this.source] = [state, source];
    this.close = () => {};
    this.stepping = 0;
    state.watch(["playing"], () => this.run());
    state.watch(["speed"], () => this.order(state.values.playing ? "play" : null));
    state.watch(["session"], () => this.left());
  }

  /** A session that is no longer shown is not played on. */
  left() {
    const { session } = this.state.values;
    if (this.shown && this.shown !== session) {
      this.close();
      const { shown } = this;
      if (shown.id && !shown.over) this.source.control(shown.id, { do: "stop" }).catch(() => {});
    }
    this.shown = session;
  }

  /** Send the players of the page to a goal. What is shown stays until they set out. @param {any} task */
  async go(task) {
    const { state } = this;
    const players = this.players();
    if (!this.source.live || !players.length) {
      say(state, this.source.live ? "No agent of this run can be played." : SERVERLESS);
      state.update({ draft: null });
      return;
    }
    state.update({ draft: task });
    const session = new Session(players, task);
    const own = players[0].run === state.values.run || !task.start;
    try {
      session.id = await this.source.start({
        players: players.map(({ run, checkpoint }) => ({ run, checkpoint })),
        start: task.start,
        goal: task.picture ? { picture: task.picture } : task.goal,
        // Numbers of tasks are those of the run on the map; to other agents the poses say the same.
        level: own ? task.level : null,
        pair: own ? task.pair : null,
        budget: own ? null : (task.budget ?? null),
        seed: 0,
      });
    } catch (error) {
      if (state.values.draft === task) state.update({ draft: null });
      complain(state, error);
      return;
    }
    if (state.values.draft !== task) { // it was taken back meanwhile, or another one was drawn
      this.source.control(session.id, { do: "stop" }).catch(() => {});
      return;
    }
    // The map shows one thing at a time: a field, or agents at play.
    this.stepping = 0;
    state.update({ playing: false });
    state.update({ session, task, draft: null, playhead: 0, tab: "live", reference: null, picked: null });
    this.close = this.source.events(session.id, (event) => this.hear(session, event), () => this.lost(session));
    state.update({ playing: true });
  }

  /** The players as chosen; by default the run on the map. */
  players() {
    const { values } = this.state;
    const chosen = values.players.length ? values.players : [{ run: values.run, checkpoint: null }];
    const known = chosen.map(({ run, checkpoint }) => {
      const found = values.runs.find((one) => one.id === run);
      return {
        run,
        checkpoint: checkpoint ?? checkpointOf(this.state, run),
        title: found?.title ?? run,
        can: found?.can_play,
      };
    });
    return known.filter((player) => player.can && player.checkpoint);
  }

  /** An episode of the file, from its beginning. @param {{players: any[], events: any[]}} episode */
  replay(episode) {
    const session = new Session(episode.players, { start: null, goal: null });
    for (const event of episode.events) session.take(event);
    this.state.update({ session, playhead: 0, playing: false, tab: "live", reference: null, picked: null });
    this.state.update({ playing: true });
  }

  hear(session, event) {
    if (this.state.values.session !== session) return;
    session.take(event);
    if (session.over) this.close();
    if (session.failed) say(this.state, session.failed);
    if (this.stepping && session.edge > this.state.values.playhead) {
      this.stepping -= 1;
      this.state.update({ playhead: this.state.values.playhead + 1 });
    }
    this.changed();
  }

  lost(session) {
    if (session.over || this.state.values.session !== session) return;
    session.failed = "The line to the server broke; the episode is shown as far as it came.";
    say(this.state, session.failed);
    this.changed();
  }

  /** Tell those who show the session that it grew. */
  changed() {
    this.grown?.();
  }

  /** Play towards the last step at the chosen speed; there wait for more, or stop where the episode is over. */
  run() {
    const { session, playing } = this.state.values;
    clearInterval(this.clock);
    if (!session) return;
    this.order(playing ? "play" : "pause");
    if (!playing) return;
    let due = 0;
    let before = performance.now();
    this.clock = setInterval(() => {
      const now = performance.now();
      due += ((now - before) / 1000) * this.state.values.speed;
      before = now;
      const steps = Math.floor(due);
      due -= steps;
      this.advance(session, steps);
    }, 1000 / 60);
  }

  advance(session, steps) {
    const { playhead } = this.state.values;
    if (this.state.values.session !== session) return;
    if (steps) this.state.update({ playhead: Math.min(session.edge, playhead + steps) });
    if (session.over && this.state.values.playhead >= session.edge) this.state.update({ playing: false });
  }

  order(word) {
    const { session, speed } = this.state.values;
    if (!word || !session?.id || session.over) return;
    this.source.control(session.id, { do: word, speed }).catch((error) => complain(this.state, error));
  }

  toggle() {
    const { session, playing, playhead } = this.state.values;
    if (!session) return;
    if (!playing && session.over && playhead >= session.edge) this.state.update({ playhead: 0 });
    this.state.update({ playing: !playing });
  }

  /** One step on, or back; at the last one the server is asked for another. @param {number} by */
  step(by) {
    const { session, playhead } = this.state.values;
    if (!session) return;
    this.state.update({ playing: false });
    const next = Math.max(0, playhead + by);
    if (next <= session.edge) this.state.update({ playhead: next });
    else if (!session.over) {
      this.stepping += 1;
      this.order("step");
    }
  }

  again() {
    if (!this.state.values.session) return;
    this.state.update({ playhead: 0, playing: false });
    this.state.update({ playing: true });
  }

  scrub(place) {
    this.state.update({ playing: false, playhead: Number(place) });
  }

  stop() {
    this.state.update({ playing: false });
    this.state.update({ session: null, task: NO_TASK });
  }
}

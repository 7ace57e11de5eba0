/** The tab of an episode: who plays, which task, the transport, and one column per player. */

import { kind } from "./colours.js";
import { byId, el, fill, icon, number } from "./dom.js";
import { PlayerCard } from "./playercard.js";
import { checkpointOf, currentRun } from "./state.js";

const MOST = 4;
const UNKNOWN = 5; // tasks offered of a world that does not list them
const ROOMY = 950; // pixels of height
const SPEEDS = [1, 2, 4, 8, 15, 30, 60];

export class LivePanel {
  /**
   * @param {import("./state.js").State} state @param {any} source @param {import("./live.js").Live} live
   * @param {(file: File) => void} takePicture
   */
  constructor(state, source, live, takePicture) {
    Object.assign(this, { state, source, live, takePicture });
    this.box = byId("panel-live");
    this.parts = {
      setup: el("details", { open: true, data: { testid: "setup" } }),
      goal: el("div", { class: "goal" }),
      transport: el("div", { class: "controls" }),
      cards: el("div", { class: "cards" }),
    };
    this.deck = el("section", { class: "deck" }, this.parts.goal, this.parts.transport);
    fill(this.box, this.parts.setup, this.deck, this.parts.cards);
    this.cards = [];
    this.makeTransport();
    live.grown = () => this.showSteps();
    state.watch(["runs", "run", "players", "map", "checkpoints"], () => this.showSetup());
    state.watch(["session"], () => this.showSession());
    state.watch(["playhead", "playing", "speed"], () => this.showSteps());
    source.episodes().then((episodes) => this.showEpisodes(episodes));
  }

  showSetup() {
    const run = currentRun(this.state);
    if (!this.source.live) return;
    if (!run?.can_play) {
      fill(
        this.parts.setup,
        el("summary", {}, "Players and task"),
        el("p", { class: "lead" }, "This run has no agent that can be played."),
      );
      return;
    }
    const rows = this.players().map((player, place, all) => this.playerRow(player, place, all));
    fill(
      this.parts.setup,
      el("summary", {}, "Players and task", this.addButton()),
      ...rows,
      this.taskRow(),
      this.pictureRow(),
    );
  }

  /** As chosen, or the run on the map at the checkpoint on the map. */
  players() {
    const { players, run } = this.state.values;
    return players.length ? players : [{ run, checkpoint: null }];
  }

  playerRow(player, place, all) {
    const { runs } = this.state.values;
    const change = (part) => this.state.update(
      { players: all.map((one, at) => (at === place ? { ...one, ...part } : one)) },
    );
    const names = this.rivals().map((run) => el(
      "option",
      { value: run.id, selected: run.id === player.run },
      run.title,
    ));
    const checkpoints = runs.find((run) => run.id === player.run)?.checkpoints ?? [];
    const shown = player.checkpoint ?? checkpointOf(this.state, player.run);
    const steps = checkpoints.map(({ name, env_steps: at }) => el(
      "option",
      { value: name, selected: name === shown },
      `${number(at)}${name === "last" ? " (last)" : ""}`,
    ));
    return el("div", { class: "player-row" },
      el("i", { class: "swatch", style: `background:${kind(place)}` }),
      el(
        "select",
        {
          data: { testid: `player-${place}` },
          "aria-label": `Run of player ${place + 1}`,
          onchange: (event) => change({ run: event.target.value, checkpoint: null }),
        },
        ...names,
      ),
      el(
        "select",
        {
          data: { testid: `player-${place}-checkpoint` },
          "aria-label": `Checkpoint of player ${place + 1}`,
          onchange: (event) => change({ checkpoint: event.target.value }),
        },
        ...steps,
      ),
      all.length > 1 && el(
        "button",
        {
          class: "plain",
          data: { testid: `player-${place}-remove` },
          "aria-label": `Remove player ${place + 1}`,
          onclick: () => this.state.update({ players: all.filter((_, at) => at !== place) }),
        },
        icon("close"),
      ));
  }

  /** Runs in the world of the map that can be played. */
  rivals() {
    const { runs } = this.state.values;
    const key = currentRun(this.state)?.world_key;
    return runs.filter((run) => run.can_play && run.world_key === key && run.checkpoints.length);
  }

  addButton() {
    const players = this.players();
    const rivals = this.rivals();
    const add = () => {
      const taken = players.map((player) => player.run);
      const next = rivals.find((run) => !taken.includes(run.id)) ?? currentRun(this.state);
      this.state.update({ players: [...players, { run: next.id, checkpoint: null }] });
    };
    return players.length < MOST && el(
      "button",
      { class: "plain", data: { testid: "player-add" }, onclick: add },
      "+ add one beside",
    );
  }

  taskRow() {
    const all = this.tasks();
    const levels = Object.entries(all).filter(([, tasks]) => tasks.length);
    if (!levels.length) return el("p", { class: "quiet" }, "Shift-drag on the map from a start to a goal.");
    // The paper's own task first; else the hardest, as easy ones may be solved where they start.
    const usual = levels.some(([name]) => name === "paper") ? "paper" : levels.at(-1)[0];
    const level = levels.some(([name]) => name === this.level) ? this.level : usual;
    const tasks = all[level];
    const go = () => this.pose(level, Number(byId("task-pair").value));
    const choose = (event) => {
      this.level = event.target.value;
      this.state.update({ task: { ...this.state.values.task, level: this.level } });
      this.showSetup();
    };
    return el("div", { class: "field-row" },
      el(
        "select",
        { data: { testid: "task-level" }, "aria-label": "Level", onchange: choose },
        ...levels.map(([name]) => el("option", { value: name, selected: name === level }, name)),
      ),
      el(
        "select",
        { data: { testid: "task-pair" }, "aria-label": "Task of this level" },
        ...tasks.map((_, place) => el("option", { value: String(place) }, `task ${place + 1} of ${tasks.length}`)),
      ),
      el("button", { class: "primary", data: { testid: "task-go" }, onclick: go }, "Go"));
  }

  /** The run's own tasks by level. A world without a map has some as well; only where they lie is not known. */
  tasks() {
    const { map } = this.state.values;
    if (map?.kind !== "other") return map?.tasks ?? {};
    const unknown = Array.from({ length: UNKNOWN }, () => ({ start: null, goal: null, budget: null }));
    return Object.fromEntries((currentRun(this.state)?.levels ?? []).map((level) => [level, unknown]));
  }

  pose(level, pair) {
    const { start, goal, budget } = this.tasks()[level][pair];
    this.live.go({ start, goal, picture: null, level, pair, budget });
  }

  pictureRow() {
    const file = el(
      "input",
      {
        type: "file",
        accept: "image/png,image/jpeg",
        class: "away",
        data: { testid: "goal-file" },
        "aria-label": "Goal picture",
        onchange: (event) => event.target.files[0] && this.takePicture(event.target.files[0]),
      },
    );
    return el(
      "p",
      { class: "quiet" },
      "Or Shift-drag on the map from a start to a goal, or ",
      el("label", { class: "link" }, "choose a picture", file),
      " of the goal, or drop one onto the page.",
    );
  }

  showEpisodes(episodes) {
    if (this.source.live) return;
    if (!episodes.length) {
      fill(
        this.parts.setup,
        el("summary", {}, "Recorded episodes"),
        el("p", { class: "lead" }, "This page was exported without episodes."),
      );
      return;
    }
    const play = (place) => this.live.replay(episodes[place]);
    const options = episodes.map((episode, place) => el(
      "option",
      { value: String(place) },
      episode.title ?? `Episode ${place + 1}`,
    ));
    fill(this.parts.setup, el("summary", {}, "Recorded episodes"),
      el("div", { class: "field-row" },
        el(
          "select",
          {
            data: { testid: "episode" },
            "aria-label": "Episode",
            onchange: (event) => play(Number(event.target.value)),
          },
          ...options,
        ),
        el(
          "button",
          { class: "primary", data: { testid: "episode-play" }, onclick: () => play(Number(byId("episode").value)) },
          "Show",
        )));
  }

  makeTransport() {
    const { live, state } = this;
    const button = (testid, picture, title, act) => el(
      "button",
      { class: "round", data: { testid }, title, "aria-label": title, onclick: act },
      icon(picture),
    );
    const speeds = SPEEDS.map((speed) => el(
      "option",
      { value: String(speed), selected: speed === state.values.speed },
      `${speed}/s`,
    ));
    fill(this.parts.transport,
      el("div", { class: "transport" },
        button("play", "play", "Play or pause (Space)", () => live.toggle()),
        button("step", "step", "One step (.)", () => live.step(1)),
        button("again", "again", "From the beginning (R)", () => live.again()),
        button("stop", "stop", "End it (Esc)", () => live.stop()),
        el(
          "select",
          {
            data: { testid: "speed" },
            title: "Steps a second (< >)",
            "aria-label": "Steps a second",
            onchange: (event) => state.update({ speed: Number(event.target.value) }),
          },
          ...speeds,
        )),
      el(
        "input",
        {
          type: "range",
          min: "0",
          step: "1",
          value: "0",
          data: { testid: "scrub" },
          "aria-label": "Step",
          oninput: (event) => live.scrub(event.target.value),
        },
      ),
      el("output", { data: { testid: "step-count" } }));
  }

  /** @param {number} by places in the list of speeds */
  faster(by) {
    const place = SPEEDS.indexOf(this.state.values.speed) + by;
    this.state.update({ speed: SPEEDS[Math.max(0, Math.min(SPEEDS.length - 1, place))] });
  }

  showSession() {
    const { session } = this.state.values;
    this.deck.hidden = !session;
    // On a low screen who plays what makes room for the play itself.
    if (this.source.live) this.parts.setup.open = !session || innerHeight > ROOMY;
    document.documentElement.toggleAttribute("data-several", (session?.players.length ?? 0) > 1);
    this.parts.goal.hidden = true;
    this.cards = session ? session.players.map((player, place) => new PlayerCard(player, place)) : [];
    this.parts.cards.dataset.count = String(this.cards.length);
    fill(this.parts.cards, ...this.cards.map((card) => card.box));
    // Space plays and pauses from here on; on the button that began the episode it would begin another.
    if (session && this.box.contains(document.activeElement)) byId("play").focus({ preventScroll: true });
    this.showSteps();
  }

  showSteps() {
    const { session, playhead, playing, speed, map } = this.state.values;
    if (!session) return;
    const { edge } = session;
    byId("scrub").max = String(edge);
    byId("scrub").value = String(playhead);
    byId("speed").value = String(speed);
    const budget = session.players.find((player) => player.begin)?.begin.budget;
    // A message goes after a while; that the episode broke off stays so.
    const why = session.failed ? ` · ${session.failed}` : "";
    byId("step-count").textContent = `step ${number(playhead)}${budget ? ` / ${number(budget)}` : ""}${why}`;
    if (playing !== this.drawnPlaying) fill(byId("play"), icon(playing ? "pause" : "play"));
    this.drawnPlaying = playing;
    this.showGoal(session);
    for (const card of this.cards) card.show(playhead, map?.unit ?? "");
  }

  showGoal(session) {
    const picture = session.players.find((player) => player.begin)?.begin.goal_picture ?? session.picture;
    if (!picture || !this.parts.goal.hidden) return;
    const words = session.goal ? "Goal B" : "Goal (place not told)";
    fill(
      this.parts.goal,
      el("img", { src: picture, alt: "The goal", data: { testid: "goal-picture" } }),
      el("p", { class: "quiet" }, words),
    );
    this.parts.goal.hidden = false;
  }
}

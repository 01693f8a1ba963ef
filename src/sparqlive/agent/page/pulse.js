// The current state of the agent: its views and last epochs, polled while the page is visible.

import { Problem, read } from "./agent.js";

const EVERY = 1500;
const MOST_EPOCHS = 500;
export const RATE_SECONDS = 60;

export const state = { epoch: 0, now: 0, views: [], epochs: [], problem: "", status: 200 };
const listeners = new Set();
let timer = 0;

// Calls a listener now and after every poll; returns a function that removes it.
export function follow(listener) {
  listeners.add(listener);
  listener(state);
  return () => listeners.delete(listener);
}

export async function look() {
  clearTimeout(timer);
  try {
    // A delayed refresh adds a second entry to an epoch, so the last epoch is requested again.
    const [epochs, views] = await Promise.all([read(`epochs?since=${Math.max(0, state.epoch - 1)}`), read("views")]);
    const known = new Set(state.epochs.map((entry) => entry.time));
    if (epochs.epoch < state.epoch) state.epochs = [];
    state.epochs = [...state.epochs, ...epochs.epochs.filter((entry) => !known.has(entry.time))].slice(-MOST_EPOCHS);
    state.epoch = epochs.epoch;
    state.now = epochs.time;
    state.views = views.views;
    state.problem = "";
    state.status = 200;
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    state.problem = error.message;
    state.status = error.status;
  } finally {
    timer = setTimeout(look, document.hidden ? EVERY * 20 : EVERY);
  }
  for (const listener of listeners) listener(state);
}

document.addEventListener("visibilitychange", () => document.hidden || look());

// Sums over the last minute, in equal steps; `of` returns how much an epoch counts.
export function lately(of, steps = 30) {
  const found = new Array(steps).fill(0);
  const from = state.now - RATE_SECONDS;
  for (const entry of state.epochs) {
    const step = Math.floor(((entry.time - from) / RATE_SECONDS) * steps);
    if (step >= 0) found[Math.min(step, steps - 1)] += of(entry);
  }
  return found;
}

export function percentile(numbers, share) {
  if (!numbers.length) return null;
  const sorted = numbers.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
}

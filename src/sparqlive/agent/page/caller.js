// What the user of this page may do: the rights of the token, and the limits that apply. Controls that would be
// rejected are not shown.

import { Problem, read } from "./agent.js";

const NOBODY = { name: "", token: false, rights: [], limits: null };
let current = NOBODY;

export const caller = () => current;
export const may = (right) => current.rights.includes(right);

// Asks the agent; returns whether the rights have changed.
export async function learnRights() {
  const before = JSON.stringify(current.rights);
  try {
    current = await read("caller");
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    current = NOBODY;
  }
  return before !== JSON.stringify(current.rights);
}
